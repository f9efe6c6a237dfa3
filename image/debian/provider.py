# SPDX-License-Identifier: GPL-3.0-or-later
"""Root tree and boot packages from the committed locks: this provider's side of the contract (docs/image.md)."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from image.arch import Arch
from image.debian import lock, tree
from image.debian.fetch import fetch
from image.disk.build import Parts
from image.run import run
from image.toolroot import EPOCH, ToolRoot
from tools.cache import cache_dir, locked, say

HERE = Path(__file__).resolve().parent
EMPTIED = (
    "var/cache",
    "var/log",
    "var/lib/apt/lists",
    "tmp",
    "run",
    "root",
    "boot",
    "var/tmp",
    "media",
    "mnt",
    "srv",
)
"""Folders that keep no content: caches, logs of the build, what a package left there."""
REMOVED = (
    "etc/ssh/ssh_host_*", "etc/hostname", "etc/resolv.conf", "etc/apt/sources.list.d/*", "var/lib/dpkg/*-old",
    "etc/*-", "var/lib/systemd/random-seed", "usr/share/man", "usr/share/info", "usr/share/lintian",
    "usr/share/bash-completion", "usr/share/zsh", "usr/share/grub/unicode.pf2", "usr/lib/grub",
    "etc/cron*", "var/backups/*",
    "usr/lib/python3/dist-packages/__pycache__", "var/lib/dbus/machine-id",
)  # fmt: skip


def parts(arch: Arch, tools: ToolRoot, *, cached: bool = True) -> Parts:
    """Make ``root`` and ``unpacked`` in the work folder.

    ``cached`` takes the installed tree from the user-level cache, or puts it there.
    """
    base = _base(arch) if cached else None
    root = tools.work / "root"
    shutil.rmtree(root, ignore_errors=True)
    if base is None:
        tree.make(lock.read("rootfs", arch), arch, root, epoch=EPOCH)
    else:
        root.mkdir(parents=True)
        run(
            ["tar", "--extract", "--xattrs", "--numeric-owner", "--file", base, "--directory", root]
        )
    _clean(root)
    unpacked = tools.work / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    for deb in fetch(lock.read("boot", arch)):
        run(["dpkg-deb", "--extract", deb, unpacked])
    return Parts(root, unpacked)


def _base(arch: Arch) -> Path:
    """The installed tree as a tar in the cache: made once a lock (20 s native, minutes in emulation)."""
    content = (
        lock.lock_file("rootfs", arch).read_bytes()
        + Path(tree.__file__).read_bytes()
        + str(EPOCH).encode()
    )
    key = hashlib.sha256(content).hexdigest()[:16]
    path = cache_dir() / "image" / f"rootfs-{arch.name}-{key}.tar"
    with locked(path.with_suffix(".lock"), "installed packages of the image"):
        if not path.exists():
            say(f"{arch.name}: installing the locked packages")
            made = path.with_suffix(".making")
            tree.make(lock.read("rootfs", arch), arch, made, epoch=EPOCH)
            part = path.with_suffix(".part")
            run(
                [
                    "tar",
                    "--create",
                    "--xattrs",
                    "--numeric-owner",
                    "--sort=name",
                    "--file",
                    part,
                    "--directory",
                    made,
                    ".",
                ]
            )
            part.replace(path)
            shutil.rmtree(made)
    return path


def _clean(root: Path) -> None:
    for name in EMPTIED:
        folder = root / name
        for item in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
    for pattern in REMOVED:
        for item in root.glob(pattern):
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
    for cache in root.rglob("__pycache__"):
        shutil.rmtree(cache)
