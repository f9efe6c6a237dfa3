# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU, its firmware and the file system tools: those of the image build's pinned tool tree.

They are started through the tree's own loader instead of chroot, so that they see this machine's
paths and what they do does not depend on what is installed here.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from image import toolroot
from tools.cache import ROOT

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


@cache
def tree() -> Path:
    """Root of the tool tree; made (about two minutes, as root) when this machine has none."""
    return toolroot.get(ROOT / "out" / "build" / "hil").root


def command(program: str, *arguments: str) -> list[str]:
    """How to start a program of the tree, `usr/bin/mcopy` for example."""
    root = tree()
    loader = [str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path"]
    return [*loader, str(root / _LIBRARIES), str(root / program), *arguments]


def environment() -> dict[str, str]:
    """For programs of the tree: QEMU loads its parts from there too."""
    return {
        **os.environ,
        "LC_ALL": "C",
        "MTOOLS_SKIP_CHECK": "1",
        "QEMU_MODULE_DIR": str(tree() / _LIBRARIES / "qemu"),
    }


def run(program: str, *arguments: str) -> str:
    """Output of a program of the tree. Raises AssertionError with what it said when it fails."""
    words = command(program, *arguments)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, (
        f"{program} {' '.join(arguments)} ended with {done.returncode}\n{said}"
    )
    return done.stdout
