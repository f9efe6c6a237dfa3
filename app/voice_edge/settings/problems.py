# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with a settings file, and where in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-.]+)\s*=")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: ``key`` is dotted (``sip.trunk[0].aor``), ``line`` is 1-based where known."""

    file: str
    key: str
    what: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.key}:" if self.key else ""
        return f"{place}:{key} {self.what}. {self.remedy}"


class SettingsError(Exception):
    """Every problem of one file, found in one reading."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in problems))


def key_lines(text: str) -> dict[str, int]:
    """Map dotted keys to line numbers.

    A plain line scan, not a TOML parser: a key it does not find (inline tables) has no line, and
    a look-alike inside a multi-line string only costs a wrong line number in an error message.
    """
    lines: dict[str, int] = {}
    arrays: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = header[2]
            if header[1] == "[[":
                index = arrays.get(table, -1) + 1
                arrays[table] = index
                table = f"{table}[{index}]"
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{key[1]}" if table else key[1], number)
    return lines
