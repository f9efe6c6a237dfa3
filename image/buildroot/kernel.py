# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel fragments, tried on the Kconfig files of a real 6.12: Debian's, the one that the Debian provider boots.

Buildroot takes its kernel from upstream, which is not reachable where only registries are. Debian's source of the same
long-term line has the same Kconfig but for Debian's patches; it is locked like every package of the image.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from image.arch import ARCHES, Arch
from image.buildroot.checkout import EXTERNAL
from image.buildroot.kconfig import Wish, wishes
from image.debian import lock
from image.debian.fetch import fetch
from image.disk import initrd
from image.run import BuildError, run
from tools.cache import cache_dir, locked, say

FRAGMENTS = EXTERNAL / "kernel"
KERNEL_ARCH = {"x86_64": "x86_64", "aarch64": "arm64"}
"""What the kernel calls them."""
WANTED = (
    "*/Kconfig*",
    "*/Makefile*",
    "*/Kbuild",
    "*/scripts",
    "*/arch/*/configs",
    "*/kernel/configs",
)
"""45 MB of 1.5 GB: all that Kconfig reads."""
_EXTRACT = """
set -eu
dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout ./usr/src/linux-source-6.12.tar.xz | xz -dc |
    tar --extract --strip-components=1 --directory "$2" --wildcards "$@"
"""


def source() -> tuple[Path, str]:
    """Folder with the Kconfig files, and the version of the Debian package that they are of."""
    (package,) = lock.read("kconfig", ARCHES["x86_64"])
    folder = cache_dir() / "kconfig" / package.sha256[:16]
    with locked(folder.with_suffix(".lock"), "kernel's Kconfig"):
        if not folder.is_dir():
            (deb,) = fetch([package])
            say(f"{package.name} {package.version}: unpacking its Kconfig")
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            script = _EXTRACT.replace('"$@"', " ".join(f"'{word}'" for word in WANTED))
            run(["nice", "sh", "-c", script, "extract", deb, part])
            part.rename(folder)
    return folder, package.version


def fragments(arch: Arch) -> list[Path]:
    """Fragments of ``arch``, in the order in which they are laid over its defconfig."""
    return [FRAGMENTS / "common.config", FRAGMENTS / f"{arch.name}.config"]


def wanted(arch: Arch) -> list[Wish]:
    """Lines of the fragments of ``arch``; raises BuildError for what is no such line."""
    try:
        return wishes("\n".join(path.read_text() for path in fragments(arch)))
    except ValueError as error:
        raise BuildError(f"{FRAGMENTS.name}/{{common,{arch.name}}}.config: {error}") from error


def configured(arch: Arch, tree: Path, output: Path) -> str:
    """The .config that the kernel's own merge makes of its defconfig and our fragments."""
    output.mkdir(parents=True, exist_ok=True)
    make: list[str | Path] = [
        "nice",
        "make",
        "-s",
        "-C",
        tree,
        f"ARCH={KERNEL_ARCH[arch.name]}",
        f"O={output}",
    ]
    run([*make, "defconfig"])
    shutil.copyfile(output / ".config", output / "base.config")
    merge = tree / "scripts/kconfig/merge_config.sh"
    run(["sh", merge, "-m", "-O", output, output / "base.config", *fragments(arch)], cwd=output)
    run([*make, "olddefconfig"])
    return (output / ".config").read_text()


def version(tree: Path) -> str:
    """Version as the Makefile states it, such as 6.12.118."""
    text = (tree / "Makefile").read_text()
    parts = [
        re.search(rf"^{name} = (\d+)$", text, re.MULTILINE)
        for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")
    ]
    return ".".join(part[1] for part in parts if part is not None)


def drivers(tree: Path) -> dict[str, set[str]]:
    """Configuration symbols that make each module, by the module's name with underscores."""
    found: dict[str, set[str]] = {}
    said = subprocess.run(
        [
            "grep",
            "-rhE",
            "--include=Makefile",
            "--include=Kbuild",
            r"^obj-\$\(CONFIG_\w+\)",
            str(tree),
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in said.splitlines():
        symbol, _, objects = line.partition(")")
        for name in re.findall(r"([\w.-]+)\.o\b", objects):
            found.setdefault(name.replace("-", "_"), set()).add(symbol.removeprefix("obj-$("))
    return found


def missing_drivers(config: dict[str, str], makes: dict[str, set[str]]) -> Iterator[str]:
    """Modules that the shared initrd loads by name and this kernel would not have."""
    for name in (*initrd.MODULES, *initrd.DISKS):
        symbols = makes.get(name, set())
        if name not in initrd.OPTIONAL and not any(symbol in config for symbol in symbols):
            yield f"{name} ({' or '.join(sorted(symbols)) or 'made by no Makefile'})"
