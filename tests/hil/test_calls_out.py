# SPDX-License-Identifier: GPL-3.0-or-later
"""The core calls SIPp: answered, refused, given up, and a CANCEL that crosses the 200."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.conftest import CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd
from hil.peers.sipp import Sipp
from hil.test_calls_in import assert_media_ports_freed


def callee(scenario: str, path: Path, rtp: RtpEnd, **options: Any) -> Sipp:
    """A SIPp that waits for our call; it listens once its statistics file is there."""
    sipp = Sipp(scenario, path, keys={"media": rtp.port}, **options)
    eventually("SIPp to listen", (path / f"{scenario}.csv").exists, 5)
    return sipp


@pytest.fixture(scope="module", autouse=True)
def mute_callee(
    request: pytest.FixtureRequest,
    start_core: Callable[..., LocalCore],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalCore, Sipp] | None]:
    """B11's second case takes half a minute, which passes while the other tests run."""
    if not any("no_487" in item.name for item in request.session.items):
        yield None
        return
    core = start_core()
    with RtpEnd() as rtp:
        path = tmp_path_factory.mktemp("b11")
        sipp = callee("uas_cancel_without_487", path, rtp, timeout_s=120, extra=["-d", "100000"])
        core.dial(uri(sipp), timeout_s=0.5)
        yield core, sipp
        sipp.stop()


def uri(sipp: Sipp) -> str:
    return f"sip:+33612345678@127.0.0.1:{sipp.port}"


def test_answered_and_callee_hangs_up(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    sipp = callee("uas_hangs_up", tmp_path, rtp, extra=["-d", "3000"])
    core.dial(uri(sipp))
    number = core.wait_event("answered")["id"]
    rtp.send_to(sipp.remote_rtp())
    sipp.finish()
    ended = core.wait_event("CallEnded", id=number)
    assert ended["by_remote"] is True
    run = audio.heard(rtp.samples(), CORE_NOTES)
    assert len(run) >= 5, f"the callee heard {run}"
    assert audio.in_order(run, CORE_NOTES)
    assert ended["stats"]["rx_lost"] == 0
    sent = rtp.sent_before(sipp.ended_at())
    assert ended["stats"]["rx_packets"] == pytest.approx(sent, abs=2)
    assert_media_ports_freed(core)


def test_answered_and_we_hang_up(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    sipp = callee("uas_caller_hangs_up", tmp_path, rtp, expand={"wait": "4000"})
    core.dial(uri(sipp), "wait500.hangup")
    sipp.finish()
    assert_media_ports_freed(core)


def test_early_media_by_100rel(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    """SIPp ends well only if each reliable answer had its PRACK with the right RAck."""
    answered = len(core.events("answered"))
    sipp = callee("uas_reliable_early", tmp_path, rtp)
    core.dial(uri(sipp), "place.wait1000.hangup")
    eventually("RTP before the answer", lambda: len(rtp.packets) > 25, 5)
    assert len(core.events("answered")) == answered
    sipp.finish()
    run = audio.heard(rtp.samples(), CORE_NOTES)
    assert len(run) >= 4, f"the callee heard {run}"
    assert audio.in_order(run, CORE_NOTES)
    assert rtp.missing() == 0
    assert_media_ports_freed(core)


@pytest.mark.parametrize("status", [486, 404, 503])
def test_refused(core: LocalCore, rtp: RtpEnd, tmp_path: Path, status: int) -> None:
    failures = len(core.events("dial_failed"))
    sipp = callee("uas_refuses", tmp_path, rtp, expand={"status": str(status)})
    core.dial(uri(sipp))
    sipp.finish()
    eventually("the dial to fail", lambda: len(core.events("dial_failed")) > failures, 3)
    failure = core.events("dial_failed")[-1]
    assert (failure["kind"], failure["status"]) == ("SignallingError", status)
    assert_media_ports_freed(core)


def test_given_up_while_it_rings(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    sipp = callee("uas_cancelled", tmp_path, rtp)
    core.dial(uri(sipp), timeout_s=0.8)
    sipp.finish()
    assert_media_ports_freed(core)


def test_b11_cancel_crosses_200(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    """SIPp ends well only if it got ACK and BYE."""
    sipp = callee("uas_cancel_crosses_200", tmp_path, rtp)
    core.dial(uri(sipp), timeout_s=0.5)
    sipp.finish()
    assert_media_ports_freed(core)


def test_nobody_there(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    """A closed port answers with ICMP; whatever becomes of it, the dial has to end in time."""
    failures = len(core.events("dial_failed"))
    core.dial("sip:+33612345678@127.0.0.1:9", timeout_s=2)
    eventually("the dial to fail", lambda: len(core.events("dial_failed")) > failures, 5)
    assert core.stats()["calls_active"] == 0


def test_b11_cancel_answered_but_no_487(mute_callee: tuple[LocalCore, Sipp]) -> None:
    """The dial fails by itself, and what it held is free after 64*T1 at the latest."""
    core, sipp = mute_callee
    eventually("the dial to fail", lambda: core.events("dial_failed"), 40)
    eventually("no call left", lambda: core.stats()["calls_active"] == 0, 40, every_s=0.5)
    assert sipp.received("CANCEL ")
    assert_media_ports_freed(core)
