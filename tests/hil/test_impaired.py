# SPDX-License-Identifier: GPL-3.0-or-later
"""A call over a bad network: what is lost is counted to the packet, and the rest is heard."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import Datagrams
from hil.peers.dialog import Dialog
from hil.peers.impair import PRESETS, Proxy, _Fate
from hil.peers.rtp import RtpEnd

SEED = 44  # within the six seconds every preset does all that it can do


@dataclass
class Trial:
    """One call over one network, from its answer to what is known afterwards."""

    preset: str
    network: Proxy
    rtp: RtpEnd
    number: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    core_heard: list[float] = field(default_factory=list)


@pytest.fixture(scope="module")
def trials(core: LocalCore, caller_melody: list[int]) -> dict[str, Trial]:
    """All presets at once, a call each, for six seconds."""
    with ExitStack() as stack:
        found: dict[str, Trial] = {}
        for preset, rule in PRESETS.items():
            rtp = stack.enter_context(RtpEnd(play=caller_melody))
            network = stack.enter_context(Proxy(rule, SEED, near_end=("127.0.0.1", rtp.port)))
            found[preset] = Trial(preset, network, rtp)
        with ExitStack() as calls:
            for trial in found.values():
                caller = calls.enter_context(Datagrams(core.sip))
                dialog = calls.enter_context(
                    Dialog(caller, trial.preset, rtp_port=trial.network.far[1])
                )
                trial.number = core.call(dialog.call_id)
                trial.network.set_far_end(dialog.remote_rtp)
                trial.rtp.send_to(trial.network.near)
            time.sleep(6)
            for trial in found.values():
                trial.rtp.send_to(None)
            time.sleep(0.3)  # what is under way arrives
        for trial in found.values():
            trial.stats = core.wait_event("CallEnded", id=trial.number)["stats"]
            recording = Path(core.wait_event("answered", id=trial.number)["recording"])
            _, (left, _) = audio.read_wav(recording)
            trial.core_heard = audio.heard(left, CALLER_NOTES)
    return found


@pytest.mark.parametrize("preset", PRESETS)
def test_a_call_over_the_preset_is_heard_and_counted(trials: dict[str, Trial], preset: str) -> None:
    trial = trials[preset]
    stats, passed = trial.stats, trial.network.to_far
    print(f"{preset}: {passed}, core {stats}")
    rule = PRESETS[preset]
    assert (passed.lost > 0, passed.doubled > 0, passed.held > 0) == (
        rule.loss > 0,
        rule.duplicate > 0,
        rule.reorder > 0,
    )
    assert stats["rx_malformed"] == 0
    # Losses before the first and after the last packet that came through cannot be known.
    assert stats["rx_lost"] == pytest.approx(passed.lost, abs=2)
    assert stats["rx_duplicate"] == passed.doubled
    for run, notes in (
        (trial.core_heard, CALLER_NOTES),
        (audio.heard(trial.rtp.samples(), CORE_NOTES), CORE_NOTES),
    ):
        assert audio.in_order(run, notes), f"heard {run}"
        assert len(run) >= 8, f"heard {run}"


def test_the_network_does_what_its_preset_says() -> None:
    """The proxy's own dice, over 100,000 packets and without sockets."""
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
    first, second = (_Fate(PRESETS["wifi"], random.Random(SEED)) for _ in range(2))
    assert [first.delays() for _ in range(2000)] == [second.delays() for _ in range(2000)]
