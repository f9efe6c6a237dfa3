# SPDX-License-Identifier: GPL-3.0-or-later
"""An update from the channel to a slot marked good, and every way it may end otherwise; RAUC is a fake here."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from voice_edge import cli
from voice_edge.appliance import bootenv, grubenv
from voice_edge.appliance.answers import UpdateAnswers
from voice_edge.appliance.places import Places
from voice_edge.update import state
from voice_edge.update.box import Box, UpdateError
from voice_edge.update.updater import STICK, Updater

from .box import box as root_tree
from .box import put
from .update_server import COMPATIBLE, CONTENT, Channel, certificate, entry, index, serving
from .virtual import run

NOON = 1_780_000_000.0
Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return certificate(tmp_path_factory.mktemp("tls"))


@dataclass
class Machine:
    """A box whose RAUC does as told. ``now`` is its clock."""

    root: Path
    tls: Contexts
    now: float = NOON
    rauc: tuple[int, str] = (0, "")
    ran: list[Sequence[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    window: str = "00:00-00:00"
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places: Places = root_tree(self.root)
        self.boots(version="1.0.0", slot="A")
        put(self.root, "etc/rauc/system.conf", f"[system]\ncompatible={COMPATIBLE}\n")
        put(self.root, "etc/machine-id", "0" * 32 + "\n")
        self.box = Box(self.places, self._run)

    def _run(self, command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        self.ran.append(command)
        if command[0] == "rauc" and self.rauc[0] == 0:
            # As RAUC does: what is written is not to be started until it is asked for.
            values = self.counters()
            other = "B" if self.slot == "A" else "A"
            grubenv.write(self.places.grubenv, {**values, f"{other}_OK": "0", f"{other}_TRY": "0"})
        return self.rauc if command[0] == "rauc" else (0, "")

    def boots(self, *, version: str, slot: str, good: bool = True) -> None:
        self.slot = slot
        put(self.root, "proc/cmdline", f"voice.slot={slot.lower()}\n")
        put(self.root, "proc/sys/kernel/random/boot_id", f"{len(self.ran)}-{version}-{slot}\n")
        release = f'VERSION="{version}"\nBUILD_TIME="{int(NOON) - 86_400}"\n'
        put(self.root, "usr/lib/voice-edge-release", release)
        put(self.root, "run/voice-edge/slot-good", "") if good else self.places.slot_good.unlink()

    def counters(self) -> dict[str, str]:
        return grubenv.read(self.places.grubenv)

    def updater(self, url: str | None = None) -> Updater:
        wanted = UpdateAnswers(url=url, window=self.window, **self.more)
        return Updater(
            self.box, wanted, now=lambda: self.now, log=self.said.append, tls=self.tls[1]
        )

    @property
    def rebooted(self) -> bool:
        return any("reboot" in command for command in self.ran)


@pytest.fixture
def machine(tmp_path: Path, tls: Contexts) -> Machine:
    return Machine(tmp_path / "root", tls)


def channel(machine: Machine, work: Callable[[Channel], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        async with serving(Channel(), machine.tls[0]) as served:
            await work(served)

    run(go())


def switched(machine: Machine) -> None:
    """A machine that was just sent into slot B with 1.1.0."""

    async def go(served: Channel) -> None:
        await machine.updater(served.url).step()

    channel(machine, go)
    assert machine.rebooted
    assert state.load(machine.box.state).phase == state.SWITCHED


def test_from_the_channel_to_a_good_slot(machine: Machine) -> None:
    switched(machine)
    install = next(command for command in machine.ran if command[0] == "rauc")
    assert Path(install[-1]).read_bytes() == CONTENT
    counters = machine.counters()
    assert (counters["ORDER"], counters["B_OK"], counters["B_TRY"]) == ("B A", "1", "0")
    machine.boots(version="1.1.0", slot="B", good=False)
    run(machine.updater().step())
    assert state.load(machine.box.state).phase == state.SWITCHED  # it must prove itself
    machine.boots(version="1.1.0", slot="B")
    run(machine.updater().step())
    kept = state.load(machine.box.state)
    assert (kept.phase, kept.last_good, kept.failures) == (state.IDLE, "1.1.0", ())
    assert not list(machine.box.folder.glob("*.raucb"))


def test_outside_of_the_window_it_is_written_and_waits(machine: Machine) -> None:
    machine.window = "02:00-02:01"
    import time

    local = time.localtime(machine.now)
    machine.now += (14 - local.tm_hour) * 3_600

    async def go(served: Channel) -> None:
        await machine.updater(served.url).step()
        assert not machine.rebooted
        assert "between 02:00 and 02:01" in machine.updater(served.url).page()[0]
        await machine.updater(served.url).step()
        assert len([c for c in machine.ran if c[0] == "rauc"]) == 1  # written once
        machine.now += 12 * 3_600 - local.tm_min * 60 - local.tm_sec
        await machine.updater(served.url).step()
        assert machine.rebooted

    channel(machine, go)


def test_postponed_is_postponed(machine: Machine) -> None:
    async def go(served: Channel) -> None:
        machine.updater(served.url).postpone(5)
        await machine.updater(served.url).step()
        assert not machine.rebooted
        machine.now += 5 * 3_600
        await machine.updater(served.url).step()
        assert machine.rebooted

    channel(machine, go)


def test_not_automatic_is_told_and_not_done(machine: Machine) -> None:
    machine.more = {"automatic": False}

    async def go(served: Channel) -> None:
        updater = machine.updater(served.url)
        await updater.step()
        assert updater.state.phase == state.IDLE
        assert "1.1.0 is newer" in updater.state.said
        assert not machine.ran

    channel(machine, go)


def test_asked_no_more_often_than_said(machine: Machine) -> None:
    async def go(served: Channel) -> None:
        served.index = index()
        for _ in range(24 * 4):
            await machine.updater(served.url).step()
            machine.now += 900
        assert 3 <= len(served.asked) <= 4  # every six hours, and up to a quarter more

    channel(machine, go)


def test_a_server_that_is_gone_is_asked_again_later_and_later(machine: Machine) -> None:
    async def go() -> None:
        for _ in range(24 * 4):
            await machine.updater("https://127.0.0.1:9").step()
            machine.now += 900

    run(go())
    assert 6 <= len(machine.said) <= 12
    assert all("ota.unreachable" in line for line in machine.said)


def test_a_clock_of_1970_asks_nobody(machine: Machine) -> None:
    machine.now = 100.0

    async def go(served: Channel) -> None:
        await machine.updater(served.url).step()
        assert served.asked == []

    channel(machine, go)
    assert "ota.clock" in machine.said[0]


def test_an_index_from_yesterday_is_refused(machine: Machine) -> None:
    async def go(served: Channel) -> None:
        served.index = index(serial=9)
        await machine.updater(served.url).step()
        served.index = index(entry("1.2.0"), serial=8)
        machine.now += 86_400
        await machine.updater(served.url).step()
        assert "ota.old-index" in machine.said[-1]
        assert not machine.ran

    channel(machine, go)


def test_a_refused_release_is_not_tried_again(machine: Machine) -> None:
    machine.rauc = (
        1,
        "LastError: signature verification failed: Verify error: certificate has expired\n",
    )

    async def go(served: Channel) -> None:
        for _ in range(20):
            await machine.updater(served.url).step()
            machine.now += 8 * 3_600
        assert len(machine.ran) == 1

    channel(machine, go)
    kept = state.load(machine.box.state)
    assert kept.failures[0].reason.startswith("ota.expired")
    assert not list(machine.box.folder.glob("*.raucb"))


def test_a_disk_that_fails_once_is_tried_again(machine: Machine) -> None:
    machine.rauc = (1, "LastError: Input/output error\n")

    async def go(served: Channel) -> None:
        await machine.updater(served.url).step()
        machine.rauc = (0, "")
        await machine.updater(served.url).step()
        assert not machine.rebooted  # not at once
        machine.now += 3_600
        await machine.updater(served.url).step()
        assert machine.rebooted

    channel(machine, go)


def test_a_release_that_does_not_start_is_left_with_its_reason(machine: Machine) -> None:
    switched(machine)
    grubenv.write(machine.places.grubenv, {**machine.counters(), "B_TRY": "3"})
    machine.boots(version="1.0.0", slot="A")
    machine.ran.clear()

    async def go(served: Channel) -> None:
        await machine.updater(served.url).step()

    channel(machine, go)
    kept = state.load(machine.box.state)
    assert kept.failures[0].version == "1.1.0"
    assert kept.failures[0].reason.startswith("ota.rolled-back: 1.1.0 did not start")
    assert not machine.ran  # nor is it taken again


def test_what_the_health_gate_said_is_kept(machine: Machine) -> None:
    switched(machine)
    put(machine.root, "data/update/gate-1.1.0.txt", "the loop call heard nothing\n")
    machine.boots(version="1.0.0", slot="A")
    run(machine.updater().step())
    reason = state.load(machine.box.state).failures[0].reason
    assert reason == "ota.rolled-back: the loop call heard nothing. 1.0.0 runs again"
    run(machine.updater().step())
    assert len(state.load(machine.box.state).failures) == 1


def test_a_cut_between_the_note_and_the_counters_is_done_again(machine: Machine) -> None:
    real = Box.start_next

    def cut(self: Box, slot: str) -> None:
        raise KeyboardInterrupt

    Box.start_next = cut  # type: ignore[method-assign]
    try:
        with pytest.raises(KeyboardInterrupt):
            switched(machine)
    finally:
        Box.start_next = real  # type: ignore[method-assign]
    machine.boots(version="1.0.0", slot="A")
    run(machine.updater().step())
    assert machine.rebooted
    assert machine.counters()["ORDER"] == "B A"
    assert state.load(machine.box.state).failures == ()


def test_while_calls_end_nothing_else_happens(machine: Machine) -> None:
    """The restart waits for calls; the timer runs meanwhile."""
    switched(machine)
    before = list(machine.ran)
    run(machine.updater().step())
    assert machine.ran == before
    assert state.load(machine.box.state).phase == state.SWITCHED


def test_counters_that_cannot_be_written_leave_it_written(machine: Machine) -> None:
    machine.places.grubenv.write_bytes(bytes(1024))
    machine.updater()._keep(phase=state.WRITTEN, version="1.1.0")
    run(machine.updater().step())
    assert "ota.bootenv" in machine.said[-1]
    assert not machine.rebooted
    assert state.load(machine.box.state).phase == state.WRITTEN


def test_back_by_hand(machine: Machine) -> None:
    machine.updater().rollback()
    assert machine.rebooted
    assert machine.counters()["ORDER"] == "B A"
    kept = state.load(machine.box.state)
    assert kept.failures[0].version == "1.0.0"  # the channel's is not taken again by itself


def test_back_before_the_restart_only_forgets(machine: Machine) -> None:
    machine.updater()._keep(phase=state.WRITTEN, version="1.1.0")
    machine.updater().rollback()
    assert not machine.rebooted
    assert machine.counters()["ORDER"] == bootenv.fresh("A")["ORDER"]


def test_a_stick_brings_one_in_without_a_network(machine: Machine) -> None:
    stick = machine.root / STICK
    stick.mkdir(parents=True)
    (stick / "1.1.0.raucb").write_bytes(CONTENT)
    (stick / "stable.json").write_bytes(index(entry()))
    run(machine.updater().step())
    assert machine.rebooted
    assert state.load(machine.box.state).version == "1.1.0"


def test_the_command_says_where_it_belongs(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    put(machine.root, "proc/cmdline", "quiet\n")
    assert cli.main(["update", "--root", str(machine.root), "status"]) == 2
    machine_at = ["--root", str(machine.root)]
    put(machine.root, "proc/cmdline", "voice.slot=a\n")
    assert cli.main(["update", *machine_at, "status"]) == 0
    assert "nothing is under way" in capsys.readouterr().out
    assert cli.main(["update", *machine_at, "schedule", "--postpone", "2"]) == 0
    assert cli.main(["update", *machine_at, "status", "--json"]) == 0
    assert '"postponed": 1' in capsys.readouterr().out


def test_a_file_by_hand_that_is_refused(machine: Machine) -> None:
    machine.rauc = (1, "LastError: Invalid bundle format: Signature size is 0\n")
    with pytest.raises(UpdateError, match=r"ota\.unsigned"):
        machine.updater().take(Path("/tmp/x.raucb"), "1.1.0", downgrade=False)
    assert machine.updater().state.phase == state.IDLE
