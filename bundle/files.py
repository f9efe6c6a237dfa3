# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that are brought to a wanted content."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def mirror(files: Mapping[Path, Path], folder: Path) -> None:
    """Make ``folder`` hold just ``files`` (relative path → source).

    A file that is the same already keeps its time and any other gets the present one: build tools compare times, and
    those of two checkouts say nothing about which content is newer.
    """
    for present in sorted(folder.rglob("*")) if folder.exists() else ():
        if not present.is_dir() and present.relative_to(folder) not in files:
            present.unlink()
    for name, source in files.items():
        target = folder / name
        if target.is_file() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def settle(folder: Path, epoch: int) -> None:
    """Give everything in ``folder`` the modes and the time that do not depend on who built it and when."""
    for path in [*sorted(folder.rglob("*")), folder]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
