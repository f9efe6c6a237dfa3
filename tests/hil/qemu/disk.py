# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks for a virtual box: the shipped image on a larger disk, and a stick with an answer file."""

from __future__ import annotations

from pathlib import Path

from image.arch import ARCHES
from image.disk.build import FIRST_MIB
from image.disk.layout import DATA_MIB, MIB, partitions

from . import tools

STICK_MIB = 16


def flash(image: Path, disk: Path, size_mib: int) -> None:
    """Write the shipped qcow2 `image` on a new `disk` of `size_mib`, as one would on a server's."""
    disk.unlink(missing_ok=True)
    tools.run("usr/bin/qemu-img", "convert", "-q", "-O", "raw", str(image), str(disk))
    with disk.open("r+b") as file:
        file.truncate(size_mib * MIB)


def stick(path: Path, name: str, content: str) -> None:
    """A USB stick labelled VOICE-EDGE with one file on it."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(STICK_MIB * MIB)
    tools.run("usr/sbin/mkfs.vfat", "-n", "VOICE-EDGE", str(path))
    source = path.with_name(name)
    source.write_text(content, encoding="utf-8")
    source.chmod(0o600)
    tools.run("usr/bin/mcopy", "-i", str(path), str(source), f"::/{name}")


def put_on_esp(disk: Path, source: Path, target: str) -> None:
    """Copy a file to the ESP of a disk that no machine runs from."""
    place = f"{disk}@@{FIRST_MIB * MIB}"
    tools.run("usr/bin/mcopy", "-o", "-i", place, str(source), f"::/{target}")


def files_of_data(disk: Path, scratch: Path) -> list[str]:
    """Names in the top folder of the data partition as flashed."""
    before = sum(partition.mib for partition in partitions(ARCHES["x86_64"])[:-1])
    with disk.open("rb") as file, scratch.open("wb") as copy:
        file.seek((FIRST_MIB + before) * MIB)
        copy.write(file.read(DATA_MIB * MIB))
    lines = tools.run("usr/sbin/debugfs", "-R", "ls -p /", str(scratch)).splitlines()
    scratch.unlink()
    return [line.split("/")[5] for line in lines if line.startswith("/")]
