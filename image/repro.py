# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that two builds of one commit, in two folders at two times, are the same bit by bit."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from image import toolroot
from image.arch import Arch
from tools.cache import ROOT, say, sha256_of

PIECES = ("root.img", "boot.img", "esp.img", "data.img", "disk.img")


def prove(arch: Arch) -> int:
    """Build twice without the tree cache and compare; returns 0 when equal, else 1 with the first difference named."""
    from image.__main__ import make

    folder = ROOT / "out" / "build"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="repro-", dir=folder) as scratch:
        builds = [Path(scratch, "one"), Path(scratch, "the-other-build")]
        for number, work in enumerate(builds, 1):
            say(f"{arch.name}: build {number} of 2 in {work.name}/")
            make(arch, toolroot.get(work), cached=False)
            time.sleep(1.1)
        differing = [
            name for name in PIECES if sha256_of(builds[0] / name) != sha256_of(builds[1] / name)
        ]
        if not differing:
            print(
                f"{arch.name}: two builds, identical: disk.img sha256 {sha256_of(builds[0] / 'disk.img')}"
            )
            return 0
        for name in differing:
            offset = first_difference(builds[0] / name, builds[1] / name)
            print(f"{arch.name}: {name} differs, first at byte {offset}")
        print(
            f"first difference in the root tree: {tree_difference(builds[0] / 'root', builds[1] / 'root') or 'none'}"
        )
        kept = folder / f"repro-{arch.name}-kept"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(scratch, kept)
        os.mkdir(scratch)
        print(f"both builds are kept in {kept.relative_to(ROOT)}")
        return 1


def first_difference(left: Path, right: Path) -> int:
    """Offset of the first byte that differs."""
    offset = 0
    with left.open("rb") as one, right.open("rb") as two:
        while True:
            first, second = one.read(1 << 20), two.read(1 << 20)
            if first != second:
                return offset + next(
                    (
                        at
                        for at, pair in enumerate(zip(first, second, strict=False))
                        if pair[0] != pair[1]
                    ),
                    min(len(first), len(second)),
                )
            if not first:
                return offset
            offset += len(first)


def tree_difference(left: Path, right: Path) -> str | None:
    """Name the first path (in order) whose kind, mode, owner, time, target or content differs, and in what."""
    names = sorted({path.relative_to(base) for base in (left, right) for path in base.rglob("*")})
    for name in names:
        one, two = left / name, right / name
        if not (one.exists() or one.is_symlink()) or not (two.exists() or two.is_symlink()):
            return f"{name}: only in one of them"
        first, second = one.lstat(), two.lstat()
        for what in ("st_mode", "st_uid", "st_gid", "st_mtime_ns"):
            if getattr(first, what) != getattr(second, what):
                return f"{name}: {what} {getattr(first, what)} and {getattr(second, what)}"
        if stat.S_ISLNK(first.st_mode):
            if one.readlink() != two.readlink():
                return f"{name}: target"
        elif stat.S_ISREG(first.st_mode) and sha256_of(one) != sha256_of(two):
            return f"{name}: content, first at byte {first_difference(one, two)}"
    return None
