# SPDX-License-Identifier: GPL-3.0-or-later
"""The mains fail at every step of an update, once and twice: the box always comes back, with its settings.

What is written goes through the real code. Boot loader and RAUC are models, of image/disk/grub.cfg and of what RAUC
does to the counters (tests/updates shows that). The claim itself rests on the booted disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from voice_edge import cli
from voice_edge.appliance import bootenv, commands, files, grubenv
from voice_edge.appliance.answers import UpdateAnswers
from voice_edge.appliance.places import Places
from voice_edge.update import fetch, state
from voice_edge.update.box import Box
from voice_edge.update.updater import Updater

from .box import MINIMAL, put
from .box import box as root_tree
from .update_server import COMPATIBLE, entry, index
from .virtual import run

NOON = 1_780_000_000.0
OLD, NEW, TORN = "1.0.0", "1.1.0", "torn"
SETTINGS = MINIMAL + '[system]\nhostname = "mine"\n'


class Cut(BaseException):
    """The mains."""


class Restart(BaseException):
    """In order."""


class Appliance:
    """``cuts`` are numbers of steps, counted over all boots, at which the mains fail.

    With ``tears`` boot counters that were just being written are zeros then, though disks write a sector whole or not.
    """

    def __init__(self, root: Path, cuts: Sequence[int], *, works: bool, tears: bool) -> None:
        self.places: Places = root_tree(root)
        self.root, self.cuts = root, set(cuts)
        self.works, self.tears = works, tears
        self.content: dict[str, str | None] = {"A": OLD, "B": None}
        self.slot, self.steps, self.boots, self.now = "A", 0, 0, NOON
        put(root, "etc/rauc/system.conf", f"[system]\ncompatible={COMPATIBLE}\n")
        put(root, "etc/rauc/keyring.pem", "")
        put(root, "etc/machine-id", "0" * 32 + "\n")
        put(root, "data/config/answers.toml", SETTINGS)

    def step(self) -> None:
        self.steps += 1
        if self.steps in self.cuts:
            raise Cut

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def cut_before_or_after(*arguments: Any, **more: Any) -> Any:
            try:
                self.step()
            except Cut:
                if real.__module__ == grubenv.__name__ and self.tears:
                    self.places.grubenv.write_bytes(bytes(grubenv.SIZE))
                raise
            result = real(*arguments, **more)
            self.step()
            return result

        return cut_before_or_after

    # The boot loader (image/disk/grub.cfg)

    def choose(self) -> str | None:
        try:
            values = grubenv.read(self.places.grubenv)
        except grubenv.DamagedError:
            values = {"ORDER": "A B", "A_OK": "1", "A_TRY": "0", "B_OK": "1", "B_TRY": "0"}
        chosen = self._pick(values)
        if chosen is None and values.get("REFILLED") != "1":
            values |= {"REFILLED": "1", "A_TRY": "0", "B_TRY": "0", "A_OK": "1", "B_OK": "1"}
            values["ORDER"] = "B A" if values.get("LAST_GOOD") == "B" else "A B"
            chosen = self._pick(values)
        self.step()
        self.places.grubenv.write_bytes(grubenv.encode(values))
        self.step()
        return chosen

    def _pick(self, values: dict[str, str]) -> str | None:
        for slot in values["ORDER"].split():
            tries = int(values[f"{slot}_TRY"])
            if values[f"{slot}_OK"] == "1" and tries < 3 and self.content[slot] is not None:
                values[f"{slot}_TRY"] = str(tries + 1)
                return slot
        return None

    # RAUC

    def programs(self, command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        if command[0] != "rauc":
            return 0, ""
        values = grubenv.read(self.places.grubenv)
        other = "B" if self.slot == "A" else "A"
        self.step()
        self.places.grubenv.write_bytes(
            grubenv.encode({**values, f"{other}_OK": "0", f"{other}_TRY": "0"})
        )
        self.step()
        self.content[other] = TORN
        self.step()
        self.content[other] = NEW
        self.step()
        return 0, ""

    # A start, as long as it lasts

    def boot(self) -> bool:
        """False when it ended early."""
        self.boots += 1
        try:
            chosen = self.choose()
            assert chosen is not None, "no slot starts"
            self.slot = chosen
            version = self.content[chosen]
            if version == TORN:
                return False  # dm-verity finds it, and the kernel panics
            self._comes_up(str(version))
        except (Cut, Restart):
            return False
        return True

    def _comes_up(self, version: str) -> None:
        put(self.root, "proc/cmdline", f"voice.slot={self.slot.lower()}\n")
        put(self.root, "proc/sys/kernel/random/boot_id", f"{self.boots}\n")
        release = f'VERSION="{version}"\nBUILD_TIME="{int(NOON) - 86_400}"\n'
        put(self.root, "usr/lib/voice-edge-release", release)
        put(self.root, "run/voice-edge/agent/voice-edge.toml", "")
        self.places.slot_good.unlink(missing_ok=True)
        self.runs = version == OLD or self.works
        cli.main(["bootenv", "--root", str(self.root)])
        cli.main(["mark-good", "--root", str(self.root)])
        for _ in range(4):
            self.now += 7 * 3_600
            wanted = UpdateAnswers(url="https://127.0.0.1", window="00:00-00:00")
            box = Box(self.places, self.programs)
            updater = Updater(box, wanted, now=lambda: self.now, log=lambda line: None)
            run(updater.step())


@pytest.fixture
def appliance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Appliance]:
    count = [0]
    current: list[Appliance] = []

    def reboot(box: Box) -> None:
        current[-1].step()
        raise Restart

    async def release(wanted: Any, folder: Path, **_: Any) -> Path:
        current[-1].step()
        path = folder / f"{wanted.sha256}.raucb"
        put(folder, path.name, "")
        current[-1].step()
        return path

    async def asked(url: str, **_: Any) -> bytes:
        return index(entry(NEW))

    writes = {module: module.write for module in (files, grubenv)}
    monkeypatch.setattr(Box, "reboot", reboot)
    monkeypatch.setattr(Box, "loop_call", lambda box: 3)
    monkeypatch.setattr(Box, "trunks_up", lambda box: 0)
    monkeypatch.setattr(fetch, "release", release)
    monkeypatch.setattr(fetch, "index", asked)
    monkeypatch.setattr(commands, "_agent_runs", lambda until, falls: current[-1].runs)
    monkeypatch.setattr("os.fsync", lambda handle: None)

    def make(cuts: Sequence[int], *, works: bool, tears: bool = False) -> Appliance:
        count[0] += 1
        for module, write in writes.items():
            monkeypatch.setattr(module, "write", write)
        made = Appliance(tmp_path / str(count[0]), cuts, works=works, tears=tears)
        current.append(made)
        for module, write in writes.items():
            monkeypatch.setattr(module, "write", made.around(write))
        return made

    return make


def settle(box: Appliance) -> None:
    """Starts until one lasts; then what must hold of every box."""
    while not box.boot():
        assert box.boots < 20, "it starts again and again"
    kept = state.load(box.root / "data/update/state.json")
    assert (box.root / "data/config/answers.toml").read_text() == SETTINGS
    assert box.places.slot_good.exists()
    assert kept.phase == state.IDLE, kept
    counters = grubenv.read(box.places.grubenv)
    assert bootenv.faults(counters) == ""
    assert (counters["LAST_GOOD"], counters[f"{box.slot}_TRY"]) == (box.slot, "0")
    if box.works and not (box.tears and kept.failures):  # else the old release may be left
        assert box.content[box.slot] == NEW, kept
        assert kept.failures == ()
    else:
        assert box.content[box.slot] == OLD
        assert [failure.version for failure in kept.failures] == [NEW]
        assert "ota.rolled-back" in kept.failures[0].reason


KINDS = pytest.mark.parametrize(
    "works", [True, False], ids=["good release", "agent does not start"]
)


def steps_of(appliance: Callable[..., Appliance], works: bool) -> int:
    """How many there are when the mains hold."""
    whole = appliance((), works=works)
    settle(whole)
    assert whole.steps > 20
    return whole.steps


def survives(cuts: Sequence[int], box: Appliance) -> None:
    try:
        settle(box)
    except AssertionError as error:
        raise AssertionError(f"the mains failed at {cuts}: {error}") from error
    assert box.steps > cuts[0], "they did not fail"


@KINDS
def test_at_every_step(works: bool, appliance: Callable[..., Appliance]) -> None:
    for step in range(1, steps_of(appliance, works)):
        survives((step,), appliance((step,), works=works))


@KINDS
def test_at_two_steps(works: bool, appliance: Callable[..., Appliance]) -> None:
    steps = steps_of(appliance, works)
    pairs = [(a, b) for a in range(1, steps) for b in range(a + 1, steps + 10)]
    for cuts in random.Random(1).sample(pairs, 100):
        survives(cuts, appliance(cuts, works=works))


@KINDS
def test_boot_counters_are_lost_with_it(works: bool, appliance: Callable[..., Appliance]) -> None:
    for step in range(1, steps_of(appliance, works)):
        survives((step,), appliance((step,), works=works, tears=True))
