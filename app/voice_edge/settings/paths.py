# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths in settings, and what else goes on to others as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import BadValueError

_DEPTH_MAX = 32


def path_of(value: str, base: Path) -> Path:
    """A path that can be one; relative ones start at ``base``."""
    if not value.strip():
        raise BadValueError("is empty", "Name a path, or leave the setting out")
    if "\0" in value:
        raise BadValueError("has a NUL character in it", "Write the path without it")
    try:
        return base / Path(value).expanduser()
    except RuntimeError:
        raise BadValueError(
            f"{value!r} begins with ~ of somebody who has no home here", "Write the whole path"
        ) from None


def json_table(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table that becomes JSON as it stands: TOML has dates and infinities, JSON has not."""
    _json(value, "", 0)
    return value


def _json(value: Any, where: str, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise BadValueError(
            f"is nested more than {_DEPTH_MAX} deep", "Write it flatter; no server asks for that"
        )
    if isinstance(value, Mapping):
        for name, item in value.items():
            _json(item, f"{where}.{name}", depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _json(item, f"{where}[{number}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadValueError(f"has {value} at {where[1:]}", "Write a number: JSON has no others")
    elif not isinstance(value, (str, bool, int, float)):
        raise BadValueError(
            f"has a {type(value).__name__} at {where[1:]}", "Write it as a string in quotes"
        )
