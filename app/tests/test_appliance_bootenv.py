# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot counters: the block GRUB reads, its repair, and a slot marked good."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from image.disk import grub
from voice_edge import cli
from voice_edge.appliance import bootenv, grubenv, notices
from voice_edge.appliance.grubenv import DamagedError

from .box import box, put


def test_a_fresh_block_is_the_one_that_is_flashed() -> None:
    assert grubenv.encode(bootenv.fresh("A")) == grub.environment(grub.FIRST_ENVIRONMENT)


def test_round_trip() -> None:
    values = {**bootenv.fresh("B"), "rt_args": "isolcpus=managed_irq,domain,2-3 nohz_full=2-3"}
    block = grubenv.encode(values)
    assert len(block) == 1024
    assert grubenv.decode(block) == values


@pytest.mark.parametrize("value", ["a\nb", "a\\b", "ä", "x" * 1024])
def test_what_cannot_stand_in_a_block_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="environment block"):
        grubenv.encode({"rt_args": value})


GOOD = grubenv.encode(bootenv.fresh("A"))
DAMAGED = {
    "empty": b"",
    "truncated": GOOD[:512],
    "too long": GOOD + b"#",
    "zeroed": bytes(1024),
    "second sector zeroed": GOOD[:512] + bytes(512),
    "overwritten": b"# GRUB Environment Block\n" + bytes(range(256)) * 3 + b"#" * 231,
    "no end": (b"# GRUB Environment Block\nORDER=A B").ljust(1024, b"#"),
    "no order": grubenv.encode({k: v for k, v in bootenv.fresh("A").items() if k != "ORDER"}),
    "strange order": grubenv.encode({**bootenv.fresh("A"), "ORDER": "A C"}),
    "strange count": grubenv.encode({**bootenv.fresh("A"), "A_TRY": "7"}),
    "no count": grubenv.encode({**bootenv.fresh("A"), "B_TRY": ""}),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("slot", ["a", "b"])
def test_damage_is_mended(content: bytes, slot: str, tmp_path: Path) -> None:
    places = box(tmp_path, slot=slot)
    places.grubenv.write_bytes(content)
    assert bootenv.repair(places)
    values = grubenv.read(places.grubenv)
    assert values == bootenv.fresh(slot.upper())
    assert values["ORDER"].split()[0] == values["LAST_GOOD"] == slot.upper()
    assert values[f"{slot.upper()}_OK"] == "1"
    assert bootenv.repair(places) == ""


def test_a_missing_block_is_made(tmp_path: Path) -> None:
    places = box(tmp_path, slot="b")
    places.grubenv.unlink()
    places.grubenv.parent.rmdir()
    assert bootenv.repair(places) == "is missing"
    assert grubenv.read(places.grubenv) == bootenv.fresh("B")


def test_a_sound_block_is_left_alone(tmp_path: Path) -> None:
    places = box(tmp_path)
    values = {**bootenv.fresh("A"), "A_TRY": "2", "B_OK": "1", "other": "kept"}
    grubenv.write(places.grubenv, values)
    before = places.grubenv.stat().st_mtime_ns
    assert bootenv.repair(places) == ""
    assert grubenv.read(places.grubenv) == values
    assert places.grubenv.stat().st_mtime_ns == before


def test_readable_arguments_survive_a_repair(tmp_path: Path) -> None:
    places = box(tmp_path)
    grubenv.write(places.grubenv, {"ORDER": "", "rt_args": "isolcpus=managed_irq,domain,1"})
    assert bootenv.repair(places)
    assert grubenv.read(places.grubenv)["rt_args"] == "isolcpus=managed_irq,domain,1"


@pytest.mark.parametrize("slot", ["A", "B"])
def test_mark_good_gives_this_slot_its_tries_back(slot: str, tmp_path: Path) -> None:
    places = box(tmp_path, slot=slot.lower())
    tried = {**bootenv.fresh("A"), "A_TRY": "3", "B_TRY": "2", "REFILLED": "1", "rt_args": "x"}
    grubenv.write(places.grubenv, tried)
    assert bootenv.mark_good(places) == slot
    good = {f"{slot}_OK": "1", f"{slot}_TRY": "0", "REFILLED": "0", "LAST_GOOD": slot}
    assert grubenv.read(places.grubenv) == {**tried, **good}


def test_block_is_written_in_place(tmp_path: Path) -> None:
    """FAT renames are not atomic, and GRUB's save_env wants the same clusters."""
    places = box(tmp_path)
    inode = places.grubenv.stat().st_ino
    bootenv.mark_good(places)
    grubenv.write(places.grubenv, bootenv.fresh("B"))
    assert places.grubenv.stat().st_ino == inode


# --- commands ---


def test_commands_do_nothing_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = box(tmp_path)
    put(tmp_path, "proc/cmdline", "root=/dev/sda1\n")
    before = places.grubenv.read_bytes()
    for command in ("bootenv", "mark-good"):
        assert cli.main([command, "--root", str(tmp_path)]) == 0
    assert places.grubenv.read_bytes() == before
    assert "not started by the appliance's boot loader" in capsys.readouterr().err


def test_an_esp_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = box(tmp_path)
    places.grubenv.write_bytes(b"")

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(grubenv, "write", refuse)
    assert cli.main(["bootenv", "--root", str(tmp_path)]) == 1
    assert "Read-only file system. The ESP cannot be written" in notices.all_of(places)[0]


@pytest.mark.parametrize(("state", "code"), [(0, 0), (3, 1)])
def test_mark_good_waits_for_a_provisioned_agent(
    state: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = box(tmp_path)
    put(tmp_path, "run/voice-edge/agent/voice-edge.toml", "")
    grubenv.write(places.grubenv, {**bootenv.fresh("A"), "A_TRY": "1"})
    now = [0.0]

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command == ["systemctl", "is-active", "--quiet", "voice-edge.service"]
        return subprocess.CompletedProcess(command, state)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    assert cli.main(["mark-good", "--root", str(tmp_path)]) == code
    assert grubenv.read(places.grubenv)["A_TRY"] == str(code)
    assert places.slot_good.exists() == (code == 0)
    assert bool(notices.all_of(places)) == (code == 1)


def test_an_unprovisioned_box_is_good(tmp_path: Path) -> None:
    places = box(tmp_path)
    grubenv.write(places.grubenv, {**bootenv.fresh("A"), "A_TRY": "3"})
    assert cli.main(["mark-good", "--root", str(tmp_path)]) == 0
    assert grubenv.read(places.grubenv)["A_TRY"] == "0"


def test_decode_says_why() -> None:
    with pytest.raises(DamagedError, match="has 512 bytes, not 1024"):
        grubenv.decode(GOOD[:512])
