# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that everything is there which our units, scripts and commands call and use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from image.arch import ARCHES
from image.buildroot import needs, provides
from image.buildroot.checking import Check, NotHere, Subject, none_of
from image.run import BuildError
from tools.cache import ROOT


def checks(one: Subject) -> Iterator[Check]:
    """These checks, each with its remedy."""
    yield (
        "programs",
        lambda: programs(one),
        "select what brings it in fragments/common.config, and state it in provides.py",
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


def programs(one: Subject) -> str:
    """Every program that a unit, script or command starts is in a selected package."""
    called = {name: path for path, name in (*needs.script_programs(), *needs.agent_programs())}
    for path, place in needs.unit_programs():
        own = any((layer / place.lstrip("/")).is_file() for layer in needs.overlays())
        if not own:
            called[Path(place).name] = path
    called |= dict.fromkeys(provides.NOT_IN_UNITS, ROOT / "image/disk/initrd/init")
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


def units(one: Subject) -> str:
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


def directives(one: Subject) -> str:
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
    count = len({name for name, _ in used})
    return f"{count} in use, all known to systemd {systemd}; {len(wanted)} symbols they need are on"


def c_library(one: Subject) -> str:
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
    faults = [
        f"{arch}: the bundle needs glibc {a}.{b}, Buildroot has {have[0]}.{have[1]}"
        for arch, (a, b) in asked.items()
        if (a, b) > have
    ]
    none_of(faults)
    said = ", ".join(f"{arch} needs {a}.{b}" for arch, (a, b) in asked.items())
    return f"{said}; Buildroot's glibc is {have[0]}.{have[1]}"
