# SPDX-License-Identifier: GPL-3.0-or-later
"""A call over a bad network: what is lost is counted to the packet, and the rest is heard."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import Datagrams
from hil.peers.dialog import Dialog
from hil.peers.impair import PRESETS, Proxy, _Fate
from hil.peers.rtp import RtpEnd

SEED = 11


@pytest.mark.parametrize("preset", PRESETS)
def test_a_call_over_the_preset_is_heard_and_counted(
    core: LocalCore, rtp: RtpEnd, preset: str
) -> None:
    with (
        Datagrams(core.sip) as caller,
        Proxy(PRESETS[preset], SEED, near_end=("127.0.0.1", rtp.port)) as network,
    ):
        with Dialog(caller, preset, rtp_port=network.far[1]) as dialog:
            number = core.call(dialog.call_id)
            network.set_far_end(dialog.remote_rtp)
            rtp.send_to(network.near)
            time.sleep(6)
            rtp.send_to(None)
            time.sleep(0.3)  # what is under way arrives
        ended = core.wait_event("CallEnded", id=number)
    stats, passed = ended["stats"], network.to_far
    print(f"{preset}: {passed}, core {stats}")
    arrived = passed.came - passed.lost
    assert stats["rx_packets"] + stats["rx_duplicate"] >= arrived
    assert stats["rx_malformed"] == 0
    # Losses before the first and after the last packet that came through cannot be known.
    assert stats["rx_lost"] == pytest.approx(passed.lost, abs=2)
    assert stats["rx_duplicate"] == passed.doubled
    recording = Path(core.wait_event("answered", id=number)["recording"])
    _, (left, _) = audio.read_wav(recording)
    for samples, notes in ((left, CALLER_NOTES), (rtp.samples(), CORE_NOTES)):
        run = audio.heard(samples, notes)
        assert audio.in_order(run, notes), f"heard {run}"
        assert len(run) >= 8, f"heard {run}"


def test_the_network_does_what_its_preset_says() -> None:
    """The proxy's own dice, over 100,000 packets and without sockets."""
    import random

    for name, rule in PRESETS.items():
        fate = _Fate(rule, random.Random(SEED))
        for _ in range(100_000):
            fate.delays()
        passed = fate.passed
        kept = passed.came - passed.lost
        assert passed.lost / passed.came == pytest.approx(rule.loss, rel=0.1, abs=1e-9), name
        assert passed.held / kept == pytest.approx(rule.reorder, rel=0.1, abs=1e-9), name
        assert passed.doubled / kept == pytest.approx(rule.duplicate, rel=0.1, abs=1e-9), name


def test_the_same_seed_gives_the_same_network() -> None:
    import random

    first, second = (_Fate(PRESETS["wifi"], random.Random(SEED)) for _ in range(2))
    assert [first.delays() for _ in range(2000)] == [second.delays() for _ in range(2000)]
