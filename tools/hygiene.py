# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the files themselves that no linter knows: `python3 -m tools.hygiene`.

Source files carry the licence line; no file names a package registry's host (the user's own clients
know theirs) or a path of somebody's machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.paths import ROOT

LICENCE = "SPDX-License-Identifier: GPL-3.0-or-later"
LICENSED_SUFFIXES = {".py", ".pyi", ".rs", ".c", ".h", ".sh"}
LICENSED_NAMES = {"justw", "Justfile", "run"}
LICENCE_WITHIN_LINES = 4

# Cut in two, since this file is searched too.
REGISTRIES = tuple(
    re.escape(".".join(parts))
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb", "debian", "org"),
        ("snapshot", "debian", "org"),
        ("ftp", "debian", "org"),
        ("security", "debian", "org"),
        ("static", "crates", "io"),
        ("index", "crates", "io"),
        ("static", "rust-lang", "org"),
        ("registry", "npmjs", "org"),
        ("proxy", "golang", "org"),
    )
)
# The lock's own format names the registry.
LOCKS = {"Cargo.lock"}
FORBIDDEN = (
    ("a package registry's host", re.compile(r"\b(?:" + "|".join(REGISTRIES) + r")\b")),
    (
        "a path of one machine",
        re.compile(r"(?<![\w.~/-])/(?:work/(?:main|plan|shared|\.)|root/|home/\w+/|opt/wheels)"),
    ),
)


def files() -> list[Path]:
    """What git knows or would take in."""
    # A checkout that belongs to another user (a CI's clone) is read all the same.
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    command += ["--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def faults(path: Path, text: str) -> list[str]:
    """What is wrong with the file, each as `place: what`."""
    name = path.relative_to(ROOT)
    lines = text.splitlines()
    found = []
    licensed = path.suffix in LICENSED_SUFFIXES or path.name in LICENSED_NAMES
    if licensed and text and not any(LICENCE in line for line in lines[:LICENCE_WITHIN_LINES]):
        found.append(f"{name}:1: the licence line is missing ({LICENCE})")
    if path.name not in LOCKS:
        for number, line in enumerate(lines, 1):
            found += [f"{name}:{number}: {what}" for what, how in FORBIDDEN if how.search(line)]
    return found


def main() -> int:
    found = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # recordings and the like
        found += faults(path, text)
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
