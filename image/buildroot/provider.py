# SPDX-License-Identifier: GPL-3.0-or-later
"""Root tree and boot files from Buildroot: this provider's side of the contract (docs/image.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

from image import outputs, toolroot
from image.arch import Arch
from image.buildroot import board, checkout, compose
from image.disk import build as disk_build
from image.disk.build import Parts
from image.release import commit_time, timed, version
from image.run import BuildError, run
from image.toolroot import ToolRoot
from tools.cache import ROOT, cache_dir


def build(arch: Arch) -> None:
    """Build with Buildroot: hours, and sources from upstream. Its last step makes the disk (board.py)."""
    if not (ROOT / "out/bundle" / arch.name / "voice-edge").is_dir():
        raise BuildError(f"no agent bundle for {arch.name}; make it with `just bundle {arch.name}`")
    if stale := compose.stale():
        raise BuildError(
            f"{', '.join(stale)}: not what fragments/ say; `python3 -m image.buildroot.compose` writes them"
        )
    tree = checkout.get()
    output = ROOT / "out/build" / f"buildroot-{arch.name}"
    downloads = cache_dir() / "buildroot-dl"
    output.mkdir(parents=True, exist_ok=True)
    downloads.mkdir(exist_ok=True)
    checkout.make(tree, output, [compose.defconfig(arch.name).name], downloads)
    with timed("Buildroot"):
        # The agent is ours and may have changed: Buildroot looks at a local source only when told.
        checkout.build(tree, output, ["voice-edge-rebuild", "all"], downloads)


def parts(arch: Arch, tools: ToolRoot, images: Path) -> Parts:
    """Take the finished root and the boot files out of Buildroot's ``images`` folder, as root."""
    root = tools.work / "root"
    unpacked = tools.work / "unpacked"
    for path in (root, unpacked):
        shutil.rmtree(path, ignore_errors=True)
    root.mkdir(parents=True)
    run(
        [
            "tar",
            "--extract",
            "--xattrs",
            "--numeric-owner",
            "--file",
            images / "rootfs.tar",
            "--directory",
            root,
        ]
    )
    shutil.copytree(images / board.HANDED_OVER, unpacked, symlinks=True)
    return Parts(root, unpacked)


def disk(arch: Arch, images: Path) -> None:
    """Make slots, disk and what a user flashes, as for every provider; needs root."""
    epoch = commit_time()
    tools = toolroot.get(ROOT / "out/build" / f"image-buildroot-{arch.name}")
    with timed("slot images and disk"):
        made = disk_build.build_disk(
            parts(arch, tools, images), arch, version(), tools, epoch=epoch
        )
    for path in outputs.write(
        made, f"voice-edge-buildroot-{arch.name}", ROOT / "out/image/buildroot", tools
    ):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")
