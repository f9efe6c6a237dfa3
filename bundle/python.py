# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked Python packages of a target architecture, unpacked by the host's uv: wheels need no program of the target."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from image.arch import Arch
from image.run import run
from tools.paths import REQUIREMENTS, uv, uv_environment

GLIBC = "manylinux_2_40"
PYTHON = "3.13"
"""Debian 13's. Its glibc is 2.41; 2.40 is the newest that uv knows."""


def install(name: str, arch: Arch, folder: Path, *, leave_out: tuple[str, ...] = ()) -> None:
    """Put the packages of requirements/``name``.txt for ``arch`` into ``folder``; nothing to do when they are there."""
    requirements = REQUIREMENTS / f"{name}.txt"
    facts = repr((arch.name, GLIBC, PYTHON, leave_out))
    wanted = hashlib.sha256(requirements.read_bytes() + facts.encode()).hexdigest()
    mark = folder / ".requirements"
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chosen = folder / "requirements.txt"
    chosen.write_text(without(requirements.read_text(), leave_out))
    command: list[str | Path] = [uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--target", folder, "-r", chosen]
    command += [
        "--python-version",
        PYTHON,
        "--python-platform",
        f"{arch.name}-{GLIBC}",
        "--link-mode",
        "copy",
    ]
    run(command, env=uv_environment())
    chosen.unlink()
    mark.write_text(wanted)


def without(text: str, names: tuple[str, ...]) -> str:
    """The requirements less those of ``names``, each with its lines of hashes."""
    kept, taking = [], True
    for line in text.splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            taking = line.split("==")[0].strip() not in names
        if taking:
            kept.append(line)
    return "".join(kept)
