# SPDX-License-Identifier: GPL-3.0-or-later
"""A release's first start that fails leaves at once, its reason kept; the release before finds its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from voice_edge.appliance import grubenv, provision
from voice_edge.appliance.bootenv import preferring
from voice_edge.update import gate, loop_call, state
from voice_edge.update.box import Box
from voice_edge.update.state import State

from .box import MINIMAL, put
from .box import box as root_tree


def box(root: Path, *, slot: str = "b", version: str = "1.1.0") -> tuple[Box, list[Sequence[str]]]:
    """As it comes up in ``slot``, sent from A with 1.0.0."""
    places = root_tree(root, slot=slot)
    grubenv.write(places.grubenv, {**preferring(grubenv.read(places.grubenv), "B"), "B_TRY": "1"})
    put(root, "usr/lib/voice-edge-release", f'VERSION="{version}"\n')
    ran: list[Sequence[str]] = []

    def runner(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        ran.append(command)
        return 0, ""

    one = Box(places, runner)
    kept = State(phase=state.SWITCHED, version="1.1.0", from_slot="A", from_version="1.0.0")
    state.save(one.state, kept)
    return one, ran


def test_a_first_start_that_fails_goes_back(tmp_path: Path) -> None:
    one, ran = box(tmp_path)
    assert gate.give_up(one, "the agent did not start")
    counters = one.counters()
    assert (counters["ORDER"], counters["A_OK"], counters["B_OK"]) == ("A B", "1", "0")
    assert ran[-1][-1] == "reboot"
    assert (one.folder / "gate-1.1.0.txt").read_text() == "1.1.0: the agent did not start\n"


def test_any_other_start_does_not(tmp_path: Path) -> None:
    one, ran = box(tmp_path)
    state.save(one.state, dataclasses.replace(state.load(one.state), phase=state.IDLE))
    before = one.counters()
    assert not gate.give_up(one, "why")
    assert one.counters() == before
    assert ran == []


def test_nor_does_one_of_the_old_slot(tmp_path: Path) -> None:
    one, ran = box(tmp_path, slot="a", version="1.0.0")
    assert not gate.give_up(one, "why")
    assert ran == []


def test_counters_that_cannot_be_read_leave_it_to_the_boot_loader(tmp_path: Path) -> None:
    one, ran = box(tmp_path)
    one.places.grubenv.write_bytes(bytes(1024))
    assert not gate.give_up(one, "why")
    assert ran == []


def test_settings_that_are_not_accepted_are_a_fault(tmp_path: Path) -> None:
    one, _ = box(tmp_path)
    assert gate.settings_fault(one) == ""  # told nothing yet
    put(tmp_path, "data/config/answers.toml", MINIMAL)
    assert gate.settings_fault(one) == ""
    put(tmp_path, "data/config/answers.toml", MINIMAL + "[new]\nthing = 1\n")
    assert gate.settings_fault(one).startswith("does not accept the settings")


def test_after_a_rollback_the_old_settings_are_in_force(tmp_path: Path) -> None:
    one, _ = box(tmp_path, slot="a", version="1.0.0")
    put(tmp_path, "data/config/answers.toml", MINIMAL)
    gate.keep_settings(one)
    put(tmp_path, "data/config/answers.toml", MINIMAL + "[new]\nthing = 1\n")
    outcome = provision.run(one.places, None)
    assert outcome.provisioned
    assert any("those of" in problem for problem in outcome.problems)
    assert (one.places.agent / "voice-edge.toml").exists()
    # And another release has none of its own.
    put(tmp_path, "usr/lib/voice-edge-release", 'VERSION="0.9.0"\n')
    assert not provision.run(one.places, None).provisioned


def test_few_copies_are_kept(tmp_path: Path) -> None:
    one, _ = box(tmp_path)
    put(tmp_path, "data/config/answers.toml", MINIMAL)
    for number in range(6):
        put(tmp_path, "usr/lib/voice-edge-release", f'VERSION="1.{number}.0"\n')
        gate.keep_settings(one)
    assert len(list(one.places.kept.glob("*.toml"))) == gate.KEPT_ANSWERS
    assert (one.places.kept / "1.5.0.toml").exists()


def trial(one: Box) -> State:
    kept = gate.on_trial(one)
    assert kept is not None
    return kept


def test_a_release_must_do_as_well_as_the_one_before(tmp_path: Path) -> None:
    one, _ = box(tmp_path)
    put(tmp_path, "run/voice-edge/agent/voice-edge.toml", "[sip]\nport = 5070\n")
    reached: list[int] = []
    placed: list[int] = []
    clock = [0.0]

    def call(port: int) -> int:
        placed.append(port)
        return reached.pop(0) if reached else loop_call.ANSWERED

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def fault(before: int) -> str:
        wanted = dataclasses.replace(trial(one), call_before=before)
        calling = dataclasses.replace(one, caller=call)
        return gate.calls_fault(calling, wanted, now=lambda: clock[0], sleep=sleep)

    assert fault(loop_call.ANSWERED) == ""
    assert fault(loop_call.NOTHING) == ""
    reached[:] = [loop_call.NOTHING, loop_call.REPLIED]
    assert fault(loop_call.REPLIED) == ""  # at the second try
    assert set(placed) == {5070}
    begun = clock[0]
    said = "a call to its own agent was answered; by 1.0.0 it was greeted"
    assert fault(loop_call.SPOKE) == said
    assert clock[0] - begun >= gate.PROVED_WITHIN_S


def test_trunks_must_be_up_as_before(tmp_path: Path) -> None:
    one, _ = box(tmp_path)
    put(tmp_path, "run/voice-edge/agent/voice-edge.toml", "")
    up = ["1 of 2 trunks up\n"]
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    seeing = dataclasses.replace(
        one, caller=lambda _: loop_call.REPLIED, runner=lambda *_: (0, up[0])
    )
    wanted = dataclasses.replace(trial(one), trunks_before=2, call_before=loop_call.REPLIED)

    def fault() -> str:
        return gate.calls_fault(seeing, wanted, now=lambda: clock[0], sleep=sleep)

    assert fault() == "1 trunks are up; with 1.0.0 there were 2"
    up[0] = "2 of 2 trunks up\n"
    assert fault() == ""
