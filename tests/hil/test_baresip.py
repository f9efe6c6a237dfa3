# SPDX-License-Identifier: GPL-3.0-or-later
"""baresip, which shares no code with PJSIP, calls the core and is called; what both ends recorded is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.baresip import Baresip
from hil.peers.process import eventually
from hil.test_calls_in import assert_media_ports_freed

Start = Callable[..., Baresip]


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    return start_core(codecs="PCMA,PCMU,G722")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Baresip] = []

    def play(rate: int) -> Path:
        melody = audio.melody(CALLER_NOTES * 20, 0.5, rate=rate)
        return audio.write_wav(tmp_path / f"caller{rate}.wav", melody, rate=rate)

    def one(codec: str = "pcma", answer: str = "auto", media_encryption: str = "") -> Baresip:
        peer = Baresip(
            tmp_path / f"baresip{len(started)}",
            play=play(16_000 if codec == "g722" else 8_000),
            codec=codec,
            answer=answer,
            media_encryption=media_encryption,
        )
        started.append(peer)
        return peer

    yield one
    for peer in started:
        peer.stop()


def uri(core: LocalCore, words: str) -> str:
    return f"sip:{words}@{core.sip[0]}:{core.sip[1]}"


def newest(core: LocalCore, kind: str, above: int) -> int:
    """Number of the first call reported past `above`."""
    return int(
        str(
            eventually(
                f"a new {kind}",
                lambda: next((e["id"] for e in core.events(kind) if e["id"] > above), None),
                5,
            )
        )
    )


def highest(core: LocalCore) -> int:
    return max((event["id"] for event in core.events("call")), default=0)


def assert_tune(samples: object, notes: tuple[float, ...], who: str, rate: int) -> None:
    run = audio.heard(samples, notes, rate=rate, purity=0.95)  # type: ignore[arg-type]
    assert len(run) >= 4, f"{who} heard {run}"
    assert audio.in_order(run, notes), f"{who} heard {run}"


def assert_both_heard(core: LocalCore, peer: Baresip, number: int) -> None:
    ended = core.wait_event("CallEnded", id=number)
    recording = Path(core.wait_event("answered", id=number)["recording"])
    rate, (left, right) = audio.read_wav(recording)
    assert rate == (16_000 if ended["stats"]["codec"] == "G722" else 8_000)
    assert_tune(left, CALLER_NOTES, "the core", rate)
    assert_tune(right, CORE_NOTES, "the core itself", rate)
    dumped, (dump,) = audio.read_wav(peer.recording())
    assert dumped == rate
    assert_tune(dump, CORE_NOTES, "baresip", rate)
    assert ended["stats"]["rx_lost"] == 0
    assert_media_ports_freed(core)


@pytest.mark.parametrize("codec", ["pcma", "pcmu", "g722"])
def test_baresip_calls_and_hangs_up(core: LocalCore, start: Start, codec: str) -> None:
    peer, before = start(codec), highest(core)
    peer.dial(uri(core, "ring.wait200.answer"))
    peer.wait_event("CALL_ESTABLISHED")
    time.sleep(2.5)
    peer.hangup()
    number = newest(core, "call", before)
    ended = core.wait_event("CallEnded", id=number)
    assert ended["by_remote"] is True
    assert ended["stats"]["codec"] == codec.upper()
    peer.stop()
    assert_both_heard(core, peer, number)


def test_baresip_calls_and_the_core_hangs_up(core: LocalCore, start: Start) -> None:
    peer, before = start(), highest(core)
    peer.dial(uri(core, "answer.wait2500.hangup"))
    peer.wait_event("CALL_CLOSED")
    number = newest(core, "call", before)
    assert core.wait_event("CallEnded", id=number)["by_remote"] is False
    peer.stop()
    assert_both_heard(core, peer, number)


def test_baresip_hears_busy(core: LocalCore, start: Start) -> None:
    peer = start()
    peer.dial(uri(core, "reject486"))
    closed = peer.wait_event("CALL_CLOSED")
    assert "486" in closed["param"] or "Busy" in closed["param"], closed


def test_baresip_gives_up_while_it_rings(core: LocalCore, start: Start) -> None:
    peer, before = start(), highest(core)
    peer.dial(uri(core, "ring"))
    peer.wait_event("CALL_RINGING")
    peer.hangup()
    ended = core.wait_event("CallEnded", id=newest(core, "call", before))
    assert (ended["status"], ended["by_remote"]) == (487, True)


@pytest.mark.parametrize("codec", ["pcma", "pcmu", "g722"])
def test_core_calls_baresip_and_hangs_up(core: LocalCore, start: Start, codec: str) -> None:
    peer, before = start(codec), highest(core)
    core.dial(peer.uri, "wait2500.hangup")
    peer.wait_event("CALL_ESTABLISHED")
    peer.wait_event("CALL_CLOSED")
    number = newest(core, "call", before)
    ended = core.wait_event("CallEnded", id=number)
    assert ended["stats"]["codec"] == codec.upper()
    peer.stop()
    assert_both_heard(core, peer, number)


def test_core_calls_baresip_and_baresip_hangs_up(core: LocalCore, start: Start) -> None:
    peer, before = start(), highest(core)
    core.dial(peer.uri)
    peer.wait_event("CALL_ESTABLISHED")
    time.sleep(2.5)
    peer.hangup()
    number = newest(core, "call", before)
    assert core.wait_event("CallEnded", id=number)["by_remote"] is True
    peer.stop()
    assert_both_heard(core, peer, number)


def test_baresip_is_busy(core: LocalCore, start: Start) -> None:
    peer = start(answer="manual")
    failures = len(core.events("dial_failed"))
    core.dial(peer.uri)
    peer.wait_event("CALL_INCOMING")
    time.sleep(0.2)
    peer.hangup()
    eventually("the dial to fail", lambda: len(core.events("dial_failed")) > failures, 3)
    assert core.events("dial_failed")[-1]["status"] == 486


# What baresip has (its own SRTP, not libsrtp), what the core is set to, and whether the call is then encrypted.
MODES = [
    ("srtp", "optional", True),
    ("srtp-mand", "optional", True),
    ("srtp", "required", True),
    ("srtp-mand", "required", True),
    ("", "optional", False),
    ("srtp", "off", False),
]


@pytest.fixture(scope="module")
def core_with(start_core: Callable[..., LocalCore]) -> Callable[[str], LocalCore]:
    """The core with this `srtp`, one for each."""
    running: dict[str, LocalCore] = {}

    def one(srtp: str) -> LocalCore:
        if srtp not in running:
            running[srtp] = start_core(name=f"srtp-{srtp}", settings={"srtp": srtp})
        return running[srtp]

    return one


def assert_encrypted(stats: Mapping[str, Any], encrypted: bool) -> None:
    assert (stats["srtp"] is not None) == encrypted
    # baresip opens the way for RTCP with a packet in clear, and its RTCP BYE is in clear as well.
    assert stats["srtp_auth_errors"] <= (2 if encrypted else 0)
    assert stats["srtp_replays"] == 0


@pytest.mark.parametrize(("theirs", "ours", "encrypted"), MODES)
def test_baresip_calls_with_srtp(
    core_with: Callable[[str], LocalCore], start: Start, theirs: str, ours: str, encrypted: bool
) -> None:
    core = core_with(ours)
    before = highest(core)
    peer = start(media_encryption=theirs)
    peer.dial(uri(core, "answer"))
    peer.wait_event("CALL_ESTABLISHED")
    time.sleep(2.5)
    peer.hangup()
    number = newest(core, "call", before)
    stats = core.wait_event("CallEnded", id=number)["stats"]
    assert_encrypted(stats, encrypted)
    peer.stop()
    assert_both_heard(core, peer, number)


@pytest.mark.parametrize(("theirs", "ours", "encrypted"), MODES)
def test_core_calls_baresip_with_srtp(
    core_with: Callable[[str], LocalCore], start: Start, theirs: str, ours: str, encrypted: bool
) -> None:
    core = core_with(ours)
    before = highest(core)
    peer = start(media_encryption=theirs)
    core.dial(peer.uri, "wait2500.hangup")
    if theirs == "srtp-mand" and ours == "optional":
        # baresip wants RTP/SAVP or nothing, and a best-effort offer is RTP/AVP (RFC 8643).
        assert core.wait_event("dial_failed", 10)["status"] == 488
        return
    peer.wait_event("CALL_ESTABLISHED")
    peer.wait_event("CALL_CLOSED")
    number = newest(core, "call", before)
    stats = core.wait_event("CallEnded", id=number)["stats"]
    assert_encrypted(stats, encrypted)
    peer.stop()
    assert_both_heard(core, peer, number)


@pytest.mark.parametrize(("theirs", "ours"), [("srtp-mand", "off"), ("", "required")])
def test_baresip_and_the_core_want_different_things(
    core_with: Callable[[str], LocalCore], start: Start, theirs: str, ours: str
) -> None:
    core = core_with(ours)
    peer = start(media_encryption=theirs)
    peer.dial(uri(core, "answer"))
    closed = peer.wait_event("CALL_CLOSED")
    assert "488" in closed["param"] or "Not Acceptable" in closed["param"], closed
    core.dial(peer.uri)
    failed = core.wait_event("dial_failed", 10)
    assert failed["status"] in (488, 415), failed
    assert core.alive()
