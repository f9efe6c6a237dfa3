# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of Debian packages: read, checked, and its changes told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from image.arch import ARCHES, Arch
from image.debian import lock
from image.debian.lock import LockError, Package

RAUC = Package("rauc", "1.13-3", "amd64", 1000, "a" * 64, "debian", "pool/main/r/rauc/rauc.deb")
X86 = ARCHES["x86_64"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the repository's locks."""
    monkeypatch.setattr(lock, "HERE", tmp_path)
    (tmp_path / "lock").mkdir()
    return lock.lock_file("rootfs", X86)


def test_what_is_written_is_read(place: Path) -> None:
    place.write_text(lock.HEADER + RAUC.line)
    assert lock.read("rootfs", X86) == [RAUC]


@pytest.mark.parametrize(
    "line",
    [
        "rauc",
        RAUC.line.replace("1000", "many"),
        RAUC.line.replace("a" * 64, "a" * 63),
        RAUC.line.replace("\tdebian\t", "\telsewhere\t"),
        RAUC.line.strip() + "\tmore\n",
        "",
    ],
    ids=["too few", "size", "checksum", "archive", "too many", "empty"],
)
def test_damaged_line_is_told_by_its_number(place: Path, line: str) -> None:
    place.write_text(lock.HEADER + RAUC.line + line.rstrip("\n") + "\n")
    with pytest.raises(LockError, match=r"rootfs-x86_64\.tsv:3: .*just image-lock"):
        lock.read("rootfs", X86)


def test_missing_lock_names_the_remedy(place: Path) -> None:
    assert not place.exists()
    with pytest.raises(LockError, match="just image-lock"):
        lock.read("rootfs", X86)


def test_differences_tell_each_kind() -> None:
    newer = dataclasses.replace(RAUC, version="1.13-4", sha256="b" * 64)
    gone = dataclasses.replace(RAUC, name="login", version="1")
    come = dataclasses.replace(RAUC, name="zstd", version="2")
    assert lock.differences([gone, RAUC], [newer, come]) == [
        "login 1 → —",
        "rauc 1.13-3 → 1.13-4",
        "zstd — → 2",
    ]
    assert lock.differences([RAUC], [RAUC]) == []


def test_rebuilt_package_of_the_same_version_is_a_difference() -> None:
    again = dataclasses.replace(RAUC, sha256="c" * 64)
    assert lock.differences([RAUC], [again]) == ["rauc 1.13-3 → 1.13-3"]


@pytest.mark.parametrize(
    ("target", "arch"), lock.targets(), ids=lambda value: str(getattr(value, "name", value))
)
def test_committed_locks_are_whole(target: str, arch: Arch) -> None:
    packages = lock.read(target, arch)
    assert packages
    names = [package.name for package in packages]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for package in packages:
        assert package.path.startswith("pool/")
        assert ".." not in package.path
        assert package.arch in ("all", arch.debian)


@pytest.mark.parametrize("target", ["rootfs", "boot"])
def test_both_architectures_hold_what_is_asked_for(target: str) -> None:
    for arch in ARCHES.values():
        names = {package.name for package in lock.read(target, arch)}
        keep = lock._section(target, arch).get("keep")
        for wanted in lock.wanted_packages(target, arch):
            assert wanted in names or keep is not None, f"{target}-{arch.name} lacks {wanted}"
        for start in keep or []:
            assert any(name.startswith(start) for name in names), f"{target}: nothing like {start}"
