# SPDX-License-Identifier: GPL-3.0-or-later
"""config/voice-edge.example.toml says what it is: every value in it is the default or marked as required."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voice_edge.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "config" / "voice-edge.example.toml"


def _values(of: type, table: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Key, value in the file, default; MISSING for what is required."""
    hints = typing.get_type_hints(of)
    for field in dataclasses.fields(of):
        if field.name not in table:
            continue
        kind, value = hints[field.name], table[field.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from _values(kind, value, f"{prefix}{field.name}.")
        else:
            value = tuple(value) if isinstance(value, list) else value
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            yield f"{prefix}{field.name}", value, default


def test_what_is_set_is_the_default_or_marked_as_required() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    found = list(_values(Settings, tomllib.loads(text), ""))
    assert len(found) > 80
    required = [key for key, _, default in found if default is dataclasses.MISSING]
    other = {key: (value, default) for key, value, default in found if key not in required}
    assert {k: v for k, v in other.items() if v[0] != v[1]} == {}
    marked = [line.partition("=")[0].strip() for line in text.splitlines() if "(required)" in line]
    assert marked[1:] == [key.rpartition(".")[2] for key in required]
