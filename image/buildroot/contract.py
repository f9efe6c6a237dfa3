# SPDX-License-Identifier: GPL-3.0-or-later
"""Buildroot's side of the contract of providers: same overlay, users, finish, slots; everything called is there."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from image import system
from image.arch import ARCHES, Arch
from image.buildroot import board, needs, provides
from image.buildroot.checkout import EXTERNAL
from image.disk import layout
from image.run import BuildError, run
from tools.cache import ROOT

if TYPE_CHECKING:
    from image.buildroot.verify import Verification

Check = tuple[str, Callable[[], str], str]
PATH_VARIABLE = "$(BR2_EXTERNAL_VOICE_EDGE_PATH)"
EPOCH = 1_700_000_000
MADE_UP = b"a stand-in for the frozen agent\n"


class NotHere(Exception):
    """What a check compares with has not been built on this machine; the text says what would."""


def checks(one: Verification) -> Iterator[Check]:
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
    yield (
        "programs",
        lambda: programs(one),
        "select what brings it in fragments/common.config, state it in provides.py",
    )
    yield (
        "units",
        lambda: units(one),
        "state in provides.py which symbol brings the unit, or write it to board/root/",
    )
    yield (
        "directives",
        lambda: directives(one),
        "state in provides.py what the directive needs, and select that",
    )
    yield (
        "C library of the bundle",
        lambda: c_library(one),
        "freeze on a system whose glibc is not younger (bundle/)",
    )


def overlay(one: Verification) -> str:
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
        run(["sh", one.tree / "support/scripts/check-merged-usr.sh", path])
    count = sum(path.is_file() or path.is_symlink() for path in system.OVERLAY.rglob("*"))
    return f"both use {system.OVERLAY.name}/ ({count} files), which suits a merged /usr, and our hooks; no users of its own"


def finish(one: Verification) -> str:
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
        release = system.Release(board.version(), "x86_64", "buildroot")
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
    return f"post-build leaves {len(_paths_of_overlay())} overlay files, the bundle and user voice-edge as image/system.py does"


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
            _compare(arch, work)
            compared.append(arch.name)
    if not compared:
        raise NotHere(
            "no image of the Debian provider in out/build; `just image debian x86_64` makes one"
        )
    return f"{', '.join(compared)}: every overlay file, user and partition name of the built disk is what Buildroot would use"


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
    entries = [table[at : at + 128] for at in range(0, len(table), 128)]
    return [entry[56:].decode("utf-16-le").rstrip("\0") for entry in entries if any(entry[:16])]


def programs(one: Verification) -> str:
    """Every program that a unit, script or command starts is in a selected package."""
    called = {name: path for path, name in (*needs.script_programs(), *needs.agent_programs())}
    for path, place in needs.unit_programs():
        own = any((layer / place.lstrip("/")).is_file() for layer in needs.overlays())
        if not own:
            called[Path(place).name] = path
    called |= {name: ROOT / "image/disk/initrd/init" for name in provides.NOT_IN_UNITS}
    applets = (one.tree / "package/busybox/busybox.config").read_text().splitlines()
    faults = []
    for name, path in sorted(called.items()):
        symbol = provides.PROGRAMS.get(name)
        if symbol is None:
            if f"CONFIG_{name.upper()}=y" not in applets:
                faults.append(
                    f"{name} ({path.relative_to(ROOT)}): no package known for it, no applet of busybox"
                )
            symbol = provides.BUSYBOX
        faults += [
            f"{name}: {arch} has {symbol} off"
            for arch, config in one.configs.items()
            if symbol not in config
        ]
    basic = (one.tree / "package/util-linux/Config.in").read_text()
    for name, symbol in provides.PROGRAMS.items():
        if symbol.endswith("UTIL_LINUX_BINARIES") and not re.search(rf"\b{name}\b", basic):
            faults.append(f"{name}: not in util-linux's basic set any more")
    none_of(faults)
    return (
        f"all {len(called)} are brought by selected packages ({', '.join(sorted(called)[:6])}, …)"
    )


def units(one: Verification) -> str:
    """Every unit that the overlay enables or extends is there under that name."""
    faults = []
    found = sorted({name for _, name in needs.foreign_units()})
    for name in found:
        symbol = provides.UNITS.get(name)
        if symbol is None:
            faults.append(f"{name}: not known who brings it")
            continue
        faults += [
            f"{name}: {arch} has {symbol} off"
            for arch, config in one.configs.items()
            if symbol not in config
        ]
        package = symbol.removeprefix("BR2_PACKAGE_").lower()
        if (
            not symbol.startswith("BR2_PACKAGE_SYSTEMD")
            and not (one.tree / "package" / package / name).is_file()
        ):
            faults.append(f"{name}: Buildroot's package {package} has no unit of this name")
    none_of(faults)
    return f"{', '.join(found)}; ssh.service from board/root/"


def directives(one: Verification) -> str:
    """Every directive is known to Buildroot's systemd, and what it needs is selected."""
    version = re.search(
        r"^SYSTEMD_VERSION = (\d+)",
        (one.tree / "package/systemd/systemd.mk").read_text(),
        re.MULTILINE,
    )
    systemd = int(version[1]) if version else 0
    used = {(name, value.strip()): path for path, name, value in needs.settings()}
    wanted: dict[str, str] = {}
    faults = []
    for (name, value), path in used.items():
        since = max(provides.SINCE.get(name, 0), provides.SINCE.get(f"{name}={value}", 0))
        if since > systemd:
            faults.append(
                f"{name}={value} ({path.name}) needs systemd {since}, Buildroot has {systemd}"
            )
        if name in provides.DIRECTIVES:
            wanted |= dict.fromkeys(provides.DIRECTIVES[name], name)
        elif name not in provides.PLAIN and name not in provides.SINCE:
            faults.append(f"{name} ({path.name}): not known what it needs")
    for path in (path for layer in needs.overlays() for path in layer.rglob("*") if path.is_file()):
        text = path.read_text(errors="replace")
        wanted |= {symbol: word for word, symbol in provides.OTHER_FEATURES.items() if word in text}
    for arch in ARCHES:
        on = one.symbols(arch)
        faults += [
            f"{arch}: {symbol} is off, which {name} needs"
            for symbol, name in wanted.items()
            if symbol not in on
        ]
    none_of(faults)
    return f"{len({name for name, _ in used})} in use, all known to systemd {systemd}; {len(wanted)} symbols they need are on"


def c_library(one: Verification) -> str:
    """The frozen agent asks for no younger glibc than Buildroot's."""
    ours = re.search(
        r"^GLIBC_VERSION = (\d+)\.(\d+)",
        (one.tree / "package/glibc/glibc.mk").read_text(),
        re.MULTILINE,
    )
    if ours is None:
        raise BuildError("package/glibc/glibc.mk states no version")
    have = (int(ours[1]), int(ours[2]))
    asked: dict[str, tuple[int, int]] = {}
    for arch in ARCHES:
        for path in sorted((ROOT / "out/bundle" / arch / "voice-edge").rglob("*")):
            if (
                path.is_file()
                and not path.is_symlink()
                and (content := path.read_bytes()).startswith(b"\x7fELF")
            ):
                versions = [
                    (int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)
                ]
                asked[arch] = max([asked.get(arch, (0, 0)), *versions])
    if not asked:
        raise NotHere("no bundle in out/bundle; `just bundle x86_64` makes one")
    faults = [f"{arch}: the bundle needs glibc {a}.{b}, Buildroot has {have[0]}.{have[1]}" for arch, (a, b) in asked.items()
              if (a, b) > have]  # fmt: skip
    none_of(faults)
    said = ", ".join(f"{arch} needs {a}.{b}" for arch, (a, b) in asked.items())
    return f"{said}; Buildroot's glibc is {have[0]}.{have[1]}"


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


def none_of(faults: list[str]) -> None:
    """Raise BuildError with every fault on a line of its own, if there is one."""
    if faults:
        raise BuildError("\n           ".join(["", *faults]) if len(faults) > 1 else faults[0])
