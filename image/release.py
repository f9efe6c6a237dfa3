# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release is built, and how long its steps take."""

from __future__ import annotations

import time

from image.run import BuildError, run
from tools.cache import ROOT, say


def commit_time() -> int:
    """Time of the commit that is built (Unix seconds): no file of the image is newer."""
    return int(run(["git", "-C", ROOT, "log", "-1", "--format=%ct"]).strip())


def version() -> str:
    """The release's version, Cargo.toml's."""
    for line in (ROOT / "Cargo.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise BuildError("Cargo.toml names no version")


class timed:
    """Says how long a step took."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            say(f"  {self.what}: {time.monotonic() - self.started:.0f} s")
