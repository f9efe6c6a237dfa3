# SPDX-License-Identifier: GPL-3.0-or-later
"""Cores for media: the policy, the kernel's command line, and never a loop of reboots."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from voice_edge import cli
from voice_edge.appliance import cpus, grubenv, notices, realtime
from voice_edge.appliance.cpus import Topology
from voice_edge.appliance.places import Places
from voice_edge.appliance.realtime import UNISOLATED, Plan, PolicyError, differences, plan

from .box import MINIMAL, box, put


def machine(cores: int, *, threads: int = 1) -> Topology:
    """``threads`` of a core are numbered as Linux does on x86: first all cores, then their second threads."""
    physical = cores // threads
    siblings = {cpu: frozenset(range(cpu % physical, cores, physical)) for cpu in range(cores)}
    return Topology(frozenset(range(cores)), cores - 1, siblings)


# --- CPU lists ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-1,4,6-7\n", {0, 1, 4, 6, 7}),
        ("N", {7}),
        ("6-N", {6, 7}),
    ],
)
def test_cpu_lists(text: str, found: set[int]) -> None:
    assert cpus.parse(text, 7) == found
    assert cpus.parse(cpus.show(found)) == found


def test_cpu_lists_are_shown_short() -> None:
    assert cpus.show({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"


# --- policy ---


@pytest.mark.parametrize(
    ("cores", "media", "house"),
    [
        (1, (), (0,)),
        (2, (1,), (0,)),
        (3, (2,), (0, 1)),
        (4, (3,), (0, 1, 2)),
        (6, (5,), tuple(range(5))),
    ],
)
def test_default_policy(cores: int, media: tuple[int, ...], house: tuple[int, ...]) -> None:
    assert plan(machine(cores), None) == Plan(media, (), house)


def test_a_quarter_of_a_large_machine() -> None:
    found = {n: realtime.default_cores(n) for n in (1, 2, 3, 4, 7, 8, 16, 64)}
    assert found == {1: 0, 2: 1, 3: 1, 4: 1, 7: 1, 8: 2, 16: 4, 64: 16}


def test_the_second_thread_of_a_media_core_is_kept_idle_where_there_is_room() -> None:
    found = plan(machine(16, threads=2), None)
    assert found == Plan((12, 13, 14, 15), (4, 5, 6, 7), (*range(4), *range(8, 12)))
    assert plan(machine(16, threads=2), 1) == Plan((15,), (7,), (*range(7), *range(8, 15)))
    # Two media cores are two physical ones.
    assert plan(machine(16, threads=2), 2).media == (14, 15)
    assert plan(machine(16, threads=2), 2).idle == (6, 7)
    # Four CPUs leave no room for that.
    assert plan(machine(4, threads=2), None) == Plan((3,), (), (0, 1, 2))


@pytest.mark.parametrize("cores", [2, 4, 8, 12, 16])
@pytest.mark.parametrize("threads", [1, 2])
def test_whatever_is_asked_for_one_core_keeps_house(cores: int, threads: int) -> None:
    for wanted in range(cores):
        found = plan(machine(cores, threads=threads), wanted)
        assert len(found.media) == wanted
        assert 0 in found.housekeeping
        parts = [*found.media, *found.idle, *found.housekeeping]
        assert sorted(parts) == list(range(cores))
    with pytest.raises(PolicyError, match=f"choose at most {cores - 1}"):
        plan(machine(cores), cores)


def test_offline_cores_are_left_out() -> None:
    assert plan(Topology(frozenset({0, 1, 3}), 7), None).media == (3,)


# --- command line ---


def test_arguments() -> None:
    assert plan(machine(4), 2).arguments == (
        "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1"
    )
    assert plan(machine(1), None).arguments == UNISOLATED


def words(line: str) -> dict[str, str]:
    return {n: v for n, _, v in (w.partition("=") for w in line.split())}


def test_the_boot_loaders_default_fits_the_smallest_machines() -> None:
    """Else they would reboot once for nothing. The text is image/disk/grub.cfg's."""
    script = (Path(__file__).parents[2] / "image/disk/grub.cfg").read_text()
    default = next(li for li in script.splitlines() if li.startswith("set rt_args="))
    line = words(default.partition("=")[2].strip('"'))
    for cores in (1, 2):
        assert differences(plan(machine(cores), None), line, cores - 1) == []
    for cores in (3, 4, 16):
        assert differences(plan(machine(cores), None), line, cores - 1)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_own_arguments_are_in_force(wanted: int) -> None:
    found = plan(machine(4), wanted)
    assert differences(found, words(found.arguments), 3) == []
    for other in {0, 1, 2} - {wanted}:
        assert differences(plan(machine(4), other), words(found.arguments), 3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        # Seen in QEMU: the kernel skips a lone N as an unknown flag.
        (
            "isolcpus=managed_irq,domain,N nohz_full=N rcu_nocbs=N irqaffinity=0",
            "isolcpus covers no CPU",
        ),
        ("isolcpus=3 nohz_full=3 rcu_nocbs=3 irqaffinity=0", "managed_irq"),
        ("isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3", "irqaffinity allows every CPU"),
        (
            "isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3 irqaffinity=0-3",
            "irqaffinity allows 0-3",
        ),
        (
            "isolcpus=managed_irq,domain,3 nohz_full=2 rcu_nocbs=3 irqaffinity=0",
            "nohz_full covers 2",
        ),
        ("isolcpus=managed_irq,domain,3 nohz_full=all rcu_nocbs=3 irqaffinity=0", "cannot be read"),
    ],
)
def test_what_is_not_in_force_is_named(line: str, says: str) -> None:
    assert says in "; ".join(differences(plan(machine(4), None), words(line), 3))


# --- apply: one reboot at most ---


def apply(places: Places) -> realtime.Outcome:
    return realtime.apply(places, realtime.plan_for(places.root, None))


def reboot(places: Places, cores: int) -> None:
    """As GRUB does: the words from the block, or its default."""
    told = grubenv.read(places.grubenv).get(
        "rt_args", "isolcpus=managed_irq,domain,1-N nohz_full=1-N rcu_nocbs=1-N irqaffinity=0"
    )
    put(places.root, "proc/cmdline", f"voice.slot=a {told}\n")
    put(places.root, f"{cpus.SYS}/possible", f"0-{cores - 1}\n")


def test_nothing_to_do(tmp_path: Path) -> None:
    places = box(tmp_path, cores=2)
    before = places.grubenv.read_bytes()
    assert apply(places) == realtime.Outcome()
    assert places.grubenv.read_bytes() == before


def test_one_reboot_then_in_force(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    assert apply(places) == realtime.Outcome(reboot=True)
    values = grubenv.read(places.grubenv)
    assert values["rt_args"] == plan(machine(4), None).arguments
    assert (values["ORDER"], values["A_OK"]) == ("A B", "1")
    reboot(places, 4)
    assert apply(places) == realtime.Outcome()
    assert not places.asked.exists()


def test_a_boot_loader_that_does_not_listen_is_asked_once(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    assert apply(places).reboot
    for _ in range(3):
        outcome = apply(places)
        assert not outcome.reboot
        assert "boot loader was told" in outcome.problem


def test_an_esp_that_forgets_does_not_loop(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    before = places.grubenv.read_bytes()
    assert apply(places).reboot
    for _ in range(3):
        places.grubenv.write_bytes(before)
        assert not apply(places).reboot


def test_data_that_forgets_does_not_loop(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    assert apply(places).reboot
    places.asked.unlink()
    assert not apply(places).reboot


def test_lost_data_means_no_reboot_at_all(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    put(tmp_path, "run/voice-edge-data-lost", "")
    outcome = apply(places)
    assert not outcome.reboot
    assert "next restart" in outcome.problem
    assert "rt_args" in grubenv.read(places.grubenv)


def test_a_block_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4, line="quiet")
    places.grubenv.write_bytes(b"\0" * 1024)
    assert "restart to have it made anew" in apply(places).problem
    places.grubenv.unlink()
    assert "check the disk" in apply(places).problem


def test_a_read_only_esp_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = box(tmp_path, cores=4, line="quiet")

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(grubenv, "write", refuse)
    outcome = apply(places)
    assert not outcome.reboot
    assert "Read-only file system" in outcome.problem


def test_another_boot_loader_is_left_alone(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4)
    put(tmp_path, "proc/cmdline", "root=/dev/sda1 quiet\n")
    before = places.grubenv.read_bytes()
    assert "Not started by the appliance's" in apply(places).problem
    assert places.grubenv.read_bytes() == before


def test_command_reads_the_answers_and_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = box(tmp_path, cores=4)
    put(tmp_path, "data/config/answers.toml", MINIMAL + "[realtime]\nmedia_cores = 2\n")
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert cli.main(["realtime-apply", "--root", str(tmp_path)]) == 0
    assert ran == [["systemctl", "--no-block", "reboot"]]
    assert grubenv.read(places.grubenv)["rt_args"].startswith("isolcpus=managed_irq,domain,2-3")
    assert cli.main(["realtime-apply", "--root", str(tmp_path)]) == 1
    assert len(ran) == 1
    assert "boot loader was told" in notices.all_of(places)[0]


def test_plan_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan(machine(2), None).media = ()  # type: ignore[misc]
