# SPDX-License-Identifier: GPL-3.0-or-later
"""`python3 -m tools.cargo ARGUMENTS`: cargo with the environment that the core builds in."""

from __future__ import annotations

import os
import shutil

from tools.setup import cargo_environment
from tools.step import Failed, entry


def main(arguments: list[str]) -> None:
    environment = cargo_environment()
    cargo = shutil.which("cargo", path=environment["PATH"])
    if cargo is None:
        raise Failed("no cargo on the PATH: `./justw test` installs one")
    os.execve(cargo, ["cargo", *arguments], environment)


if __name__ == "__main__":
    entry(main)
