# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of an image build, from a locked Debian tree of their own: what they make does not depend on the host."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from image.arch import ARCHES
from image.debian import lock, tree
from image.run import BuildError, run
from tools.cache import cache_dir, locked, say

EPOCH = 1_767_225_600
"""Time of trees from locked packages (start of 2026): the lock decides about them, not the commit."""
_ENTER = """
set -eu
root=$1 work=$2
shift 2
mount --bind "$work" "$root/work"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


class ToolRoot:
    """Runs programs of the tool tree with one folder of the host as /work."""

    def __init__(self, root: Path, work: Path) -> None:
        self.root = root
        self.work = work

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: dict[str, str] | None = None,
    ) -> str:
        """Run ``command`` inside, in /work; returns its stdout.

        Its mounts are in a namespace of their own and end with it.
        """
        inside = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/root",
            "TZ": "UTC",
            **(env or {}),
        }
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            _ENTER,
            "enter",
            str(self.root),
        ]
        return run(
            [
                *words,
                str(self.work),
                "env",
                "-i",
                "-C",
                "/work",
                *(f"{k}={v}" for k, v in inside.items()),
                *command,
            ],
            stdin=stdin,
        )


def get(work: Path) -> ToolRoot:
    """The tool tree of the committed lock, made once a machine and lock (about two minutes); needs root."""
    if os.geteuid() != 0:
        raise BuildError(
            "building an image needs root (it makes file systems owned by root): run it with sudo"
        )
    arch = ARCHES["x86_64"]
    path = lock.lock_file("tools", arch)
    key = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    root = cache_dir() / "image" / f"tools-{key}"
    with locked(root.with_suffix(".lock"), "tools of the image build"):
        if not (root / "work").is_dir():
            say("tools of the image build: making their tree")
            tree.make(lock.read("tools", arch), arch, root, epoch=EPOCH)
            (root / "work").mkdir()
    work.mkdir(parents=True, exist_ok=True)
    return ToolRoot(root, work)
