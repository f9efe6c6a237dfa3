# SPDX-License-Identifier: GPL-3.0-or-later
"""Just enough TOML writing for settings made from settings (the standard library only reads)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(tree: Mapping[str, Any]) -> str:
    """Tables, arrays of tables and plain values. Raises TypeError on anything else."""
    return "\n".join(_table(tree, "")) + "\n"


def _table(tree: Mapping[str, Any], name: str) -> list[str]:
    plain = {key: value for key, value in tree.items() if not _is_table(value)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in tree.items():
        if key in plain:
            continue
        path = f"{name}.{_key(key)}" if name else _key(key)
        tables = [value] if isinstance(value, Mapping) else value
        head = f"[{path}]" if isinstance(value, Mapping) else f"[[{path}]]"
        for table in tables:
            lines += ["", head, *_table(table, path)]
    return lines


def _is_table(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's; DEL alone must be escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")
