# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator must know or act on: kept in /run until the command that told it finds it gone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import files
from .places import Places


def tell(places: Places, topic: str, lines: Sequence[str]) -> None:
    """Replace the notices of ``topic``, and print them (the unit sends that to journal and console)."""
    path = _path(places, topic)
    if not lines:
        files.remove(path) if path.exists() else None
        return
    files.write(path, json.dumps(list(lines)) + "\n")
    for line in lines:
        print(f"voice-edge {topic}: {line}", file=sys.stderr, flush=True)


def all_of(places: Places) -> list[str]:
    """Every notice, each led by its topic."""
    out: list[str] = []
    for path in sorted(places.notices.glob("*.json")):
        try:
            lines = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        out += [f"{path.stem}: {line}" for line in lines]
    if places.data_lost.exists():
        out.append(
            "data: the data partition could not be mounted; nothing of this boot is kept. "
            "Restart; if this stays, replace the disk or flash the image again"
        )
    return out


def _path(places: Places, topic: str) -> Path:
    return places.notices / f"{topic}.json"
