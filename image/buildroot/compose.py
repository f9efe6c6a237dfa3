# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the two defconfigs from shared fragments, since a Buildroot defconfig cannot include another file."""

from __future__ import annotations

import sys
from pathlib import Path

from image.arch import ARCHES

HERE = Path(__file__).resolve().parent
FRAGMENTS = HERE / "fragments"


def defconfig(arch: str) -> Path:
    """Where the defconfig of ``arch`` lies."""
    return HERE / "configs" / f"voice_edge_{arch}_defconfig"


def composed(arch: str) -> str:
    """What the defconfig of ``arch`` has to be: the fragments' lines one after another."""
    lines = [
        f"# Made from fragments/ by `python3 -m image.buildroot.compose`: change those ({arch})."
    ]
    for name in ("common", arch):
        lines += ["", *(FRAGMENTS / f"{name}.config").read_text().splitlines()]
    return "\n".join(lines) + "\n"


def stale() -> list[str]:
    """Names of the defconfigs that are not what the fragments say."""
    return [
        path.name
        for arch in ARCHES
        if not (path := defconfig(arch)).is_file() or path.read_text() != composed(arch)
    ]


def main() -> int:
    """Write both."""
    for arch in ARCHES:
        defconfig(arch).write_text(composed(arch))
        print(defconfig(arch).name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
