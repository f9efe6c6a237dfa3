# SPDX-License-Identifier: GPL-3.0-or-later
"""The Rust crates that are linked into the core: names, checksums and licence texts."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from image.run import BuildError

TEXTS = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
OURS = "voicecore-python"


@dataclass(frozen=True)
class Crate:
    """One crate of somebody else's."""

    name: str
    version: str
    licence: str
    sha256: str


def checksums(lock: Path) -> dict[tuple[str, str], str]:
    """sha256 by name and version of everything in a Cargo.lock that comes from a registry."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {
        (item["name"], item["version"]): item["checksum"] for item in packages if "checksum" in item
    }


def linked(
    run: Callable[[list[str]], str], triple: str, checksums: Mapping[tuple[str, str], str]
) -> list[Crate]:
    """The crates in the library: no build scripts' helpers, no macros, nothing of another platform.

    ``run`` runs a command in the workspace and returns what it printed.
    """
    command = ["cargo", "tree", "--locked", "--offline", "--package", OURS, "--target", triple]
    command += ["--prefix", "none", "--edges", "normal,no-proc-macro", "--no-dedupe"]
    found = set()
    for line in run([*command, "--format", "{p}\t{l}"]).splitlines():
        if not line.strip():
            continue
        package, licence = line.split("\t")
        name, version = package.split()[0], package.split()[1].removeprefix("v")
        if (name, version) in checksums:
            found.add(Crate(name, version, licence, checksums[name, version]))
    if not found:
        raise BuildError(f"cargo names no crate in {OURS}")
    return sorted(found, key=lambda crate: (crate.name, crate.version))


def licences(wanted: list[Crate], vendor: Path, into: Path) -> None:
    """Copy each crate's licence texts to ``into``/NAME-VERSION/."""
    for crate in wanted:
        source = vendor / f"{crate.name}-{crate.version}"
        texts = [
            path
            for path in source.iterdir()
            if path.is_file() and path.name.upper().startswith(TEXTS)
        ]
        folder = into / f"{crate.name}-{crate.version}"
        folder.mkdir(parents=True)
        for text in texts:
            shutil.copyfile(text, folder / text.name)
        if not texts:
            stated = f"{crate.name} {crate.version} carries no licence text; it states: {crate.licence}\n"
            (folder / "LICENSE").write_text(stated)
