# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes requirements/*.txt: every Python package with its version and hashes.

`python3 -m tools.lock [--upgrade]`. Everything is resolved once together, then written set by
set, so that any of the sets can be installed into one environment without a clash of versions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.paths import PYTHON_FLOOR, REQUIREMENTS, ROOT, uv, uv_environment
from tools.step import entry, run, step

SETS = ("bootstrap", "build", "app", "standins", "bundle", "dev", "hil")


def compile_set(sources: list[Path], target: Path, *options: str) -> None:
    """Resolves `sources` into `target`; what `target` pins already stays, but for `--upgrade`."""
    command = [
        uv(),
        "pip",
        "compile",
        "--universal",
        "--generate-hashes",
        "--python-version",
        PYTHON_FLOOR,
    ]
    command += [
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--custom-compile-command",
        "./justw lock",
    ]
    command += ["--quiet", "--output-file", str(target), *options]
    run([*command, *(str(source.relative_to(ROOT)) for source in sources)], env=uv_environment())


def main(arguments: list[str]) -> int:
    upgrade = ["--upgrade"] if "--upgrade" in arguments else []
    sources = [REQUIREMENTS / f"{name}.in" for name in SETS]
    with tempfile.TemporaryDirectory() as scratch, step("Resolving Python packages", log="lock"):
        together = Path(scratch) / "all.txt"
        if not upgrade:
            # Seeds the resolution with what is pinned now, so that a new line moves nothing else.
            pinned = (REQUIREMENTS / f"{name}.txt" for name in SETS)
            together.write_text("".join(p.read_text() for p in pinned if p.exists()))
        compile_set(sources, together, *upgrade)
        for name, source in zip(SETS, sources, strict=True):
            compile_set(
                [source], REQUIREMENTS / f"{name}.txt", "-c", str(together), "--no-annotate"
            )
    return 0


if __name__ == "__main__":
    entry(main)
