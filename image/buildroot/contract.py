# SPDX-License-Identifier: GPL-3.0-or-later
"""Buildroot's side of the contract of providers: same overlay, users, finish, slots; everything called is there."""

from __future__ import annotations

import os
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from image import system
from image.arch import ARCHES, Arch
from image.buildroot import board, needs
from image.buildroot.checking import Check, NotHere, Subject
from image.buildroot.checkout import EXTERNAL
from image.disk import layout
from image.release import version
from image.run import BuildError, run
from tools.cache import ROOT

PATH_VARIABLE = "$(BR2_EXTERNAL_VOICE_EDGE_PATH)"
EPOCH = 1_700_000_000
MADE_UP = b"a stand-in for the frozen agent\n"


def checks(one: Subject) -> Iterator[Check]:
    """Checks of the contract, each with its remedy."""
    yield (
        "overlay",
        lambda: overlay(one),
        "BR2_ROOTFS_OVERLAY and the hooks in fragments/common.config",
    )
    yield (
        "finish and users",
        lambda: finish(one),
        "image/buildroot/board.py has to leave the finish to image/system.py",
    )
    yield (
        "slots and disk",
        slots,
        "image/disk/layout.py, grub.cfg and initrd/init name the same partitions",
    )
    yield (
        "same as the Debian build",
        debian_build,
        "build again with `just image debian ARCH`; then look at what differs in image/buildroot/board.py",
    )


def overlay(one: Subject) -> str:
    """The configuration names the shared overlay and our two hooks, and Buildroot would take the overlay."""
    wanted = {
        "BR2_ROOTFS_OVERLAY": system.OVERLAY,
        "BR2_ROOTFS_POST_BUILD_SCRIPT": EXTERNAL / "board/post-build.sh",
        "BR2_ROOTFS_POST_IMAGE_SCRIPT": EXTERNAL / "board/post-image.sh",
    }
    for arch, config in one.configs.items():
        for symbol, path in wanted.items():
            named = config.get(symbol, '""').strip('"').replace(PATH_VARIABLE, str(EXTERNAL))
            if not named or Path(os.path.normpath(named)) != path:
                raise BuildError(
                    f"{arch}: {symbol} is {named or 'not set'}, not {path.relative_to(ROOT)}"
                )
            if symbol.endswith("SCRIPT") and not os.access(path, os.X_OK):
                raise BuildError(f"{path.relative_to(ROOT)} is not executable")
        if config.get("BR2_ROOTFS_USERS_TABLES", '""') != '""':
            raise BuildError(
                f"{arch}: BR2_ROOTFS_USERS_TABLES adds users that the other provider does not have"
            )
    for path in needs.overlays():
        if apart := run(["sh", one.tree / "support/scripts/check-merged-usr.sh", path]).split():
            raise BuildError(
                f"{path.name} has {', '.join(apart)}, which on a merged /usr are links: use usr/"
            )
    count = sum(path.is_file() or path.is_symlink() for path in system.OVERLAY.rglob("*"))
    name = system.OVERLAY.name
    return f"both use {name}/ ({count} files), which suits a merged /usr, and our hooks; no users of their own"


def finish(one: Subject) -> str:
    """The post-build hook makes of Buildroot's skeleton what the shared finish makes of it, twice run as well."""
    with tempfile.TemporaryDirectory(prefix="voice-edge-finish-") as scratch:
        folder = Path(scratch)
        trees = [folder / name for name in ("hook", "shared")]
        images = folder / "images"
        (images / board.BUNDLE).mkdir(parents=True)
        (images / board.BUNDLE / "voice-edge").write_bytes(MADE_UP)
        for tree in trees:
            shutil.copytree(one.tree / "system/skeleton", tree, symlinks=True)
            for name in ("usr/bin", "usr/lib/grub/modules"):
                (tree / name).mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            board.post_build(trees[0], images, "x86_64", epoch=EPOCH)
        system.lay_over(trees[1], board.OWN)
        release = system.Release(version(), "x86_64", "buildroot")
        system.finish(trees[1], images / board.BUNDLE, release, epoch=EPOCH)
        differing = [
            name for name in _paths(trees[1]) if not _same(trees[0] / name, trees[1] / name)
        ]
        differing = [name for name in differing if not name.startswith(board.REMOVED)]
        if differing:
            raise BuildError(
                f"after the hook {', '.join(differing[:5])} is not what image/system.py makes"
            )
        lines = (trees[0] / "etc/passwd").read_text().splitlines()
        entries = [line for line in lines if line.startswith("voice-edge:")]
        if len(entries) != 1 or f":{system.AGENT_UID}:{system.AGENT_UID}:" not in entries[0]:
            raise BuildError(f"etc/passwd has {entries or 'no user voice-edge'}")
        if not (images / board.HANDED_OVER / "usr/lib/grub/modules").is_dir():
            raise BuildError("GRUB's modules are not handed over to the disk step")
    count = len(_paths_of_overlay())
    return f"post-build leaves {count} overlay files, the bundle and the user as image/system.py does, run twice too"


def slots() -> str:
    """Boot script, initrd and fstab name partitions that the one layout has."""
    texts = {
        path: path.read_text()
        for path in (
            ROOT / "image/disk/grub.cfg",
            ROOT / "image/disk/initrd/init",
            system.OVERLAY / "etc/fstab",
        )
    }
    grub, init, fstab = texts.values()
    for arch in ARCHES.values():
        names = [partition.name for partition in layout.partitions(arch)]
        for slot, number in re.findall(r'set boot_([ab])="\$disk,gpt(\d+)"', grub):
            if names[int(number) - 1] != f"boot-{slot}":
                raise BuildError(
                    f"grub.cfg takes partition {number} for boot-{slot}, the layout for {names[int(number) - 1]}"
                )
        used = {f"root-{slot}" for slot in "ab"} if 'partition "root-$1"' in init else set()
        used |= set(re.findall(r"\(partition (\w+)\)", init)) | set(
            re.findall(r"^PARTLABEL=(\S+)", fstab, re.MULTILINE)
        )
        if missing := used - set(names):
            raise BuildError(f"no partition {', '.join(sorted(missing))} in image/disk/layout.py")
    hook = Path(board.__file__).with_name("provider.py").read_text()
    if "build_disk(" not in hook:
        raise BuildError("the post-image hook does not make the disk by image/disk/build.py")
    return f"{', '.join(names)}: made by image/disk/build.py for both providers"


def debian_build() -> str:
    """Overlay, users and partition table of a disk that the Debian provider built here."""
    compared = []
    for arch in ARCHES.values():
        work = ROOT / "out/build" / f"image-{arch.name}"
        if (work / "disk.img").is_file() and (work / "root/usr/lib/voice-edge-release").is_file():
            _not_older(arch, work / "disk.img")
            _compare(arch, work)
            compared.append(arch.name)
    if not compared:
        raise NotHere(
            "no image of the Debian provider in out/build; `just image debian x86_64` makes one"
        )
    what = "overlay, user and partitions of the built disk are what Buildroot would use"
    return f"{', '.join(compared)}: {what}"


def _not_older(arch: Arch, disk: Path) -> None:
    newest = max(
        (path for path in system.OVERLAY.rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_mtime,
    )
    if newest.stat().st_mtime > disk.stat().st_mtime:
        name = newest.relative_to(system.OVERLAY.parent)
        raise NotHere(
            f"the {arch.name} image here is older than {name}; `just image debian {arch.name}` makes it anew"
        )


def _compare(arch: Arch, work: Path) -> None:
    for name in _paths_of_overlay():
        if not _same(work / "root" / name, system.OVERLAY / name, modes=False):
            raise BuildError(
                f"{arch.name}: /{name} of the built root is not rootfs-overlay's (built before a change?)"
            )
    if (
        f"voice-edge:x:{system.AGENT_UID}:{system.AGENT_UID}:"
        not in (work / "root/etc/passwd").read_text()
    ):
        raise BuildError(f"{arch.name}: the built root has another user voice-edge")
    names = partition_names(work / "disk.img")
    wanted = [partition.name for partition in layout.partitions(arch)]
    if names != wanted:
        raise BuildError(
            f"{arch.name}: the built disk has partitions {', '.join(names)}, the layout {', '.join(wanted)}"
        )


def partition_names(disk: Path) -> list[str]:
    """Names in the GPT of ``disk`` (UEFI specification, 5.3.3), in order of their numbers."""
    with disk.open("rb") as file:
        file.seek(1024)
        table = file.read(128 * 128)
    entries = [entry for (entry,) in struct.iter_unpack("128s", table)]
    return [entry[56:].decode("utf-16-le").rstrip("\0") for entry in entries if any(entry[:16])]


def _paths(tree: Path) -> list[str]:
    return [
        str(path.relative_to(tree))
        for path in sorted(tree.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    ]


def _paths_of_overlay() -> list[str]:
    return _paths(system.OVERLAY)


def _same(left: Path, right: Path, *, modes: bool = True) -> bool:
    if left.is_symlink() or right.is_symlink():
        return left.is_symlink() and right.is_symlink() and left.readlink() == right.readlink()
    if not left.is_file() or not right.is_file() or left.read_bytes() != right.read_bytes():
        return False
    return not modes or left.stat().st_mode == right.stat().st_mode
