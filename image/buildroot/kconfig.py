# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of a configuration survive Kconfig, which drops without a word what it does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = re.compile(r"^(?:(?P<name>\w+)=(?P<value>.+)|# (?P<off>\w+) is not set)$")


@dataclass(frozen=True)
class Wish:
    """One line of a fragment: ``value`` None wants the symbol off."""

    name: str
    value: str | None
    line: str


def wishes(text: str) -> list[Wish]:
    """Lines of a fragment, comments left out; raises ValueError for a line that is neither."""
    found: dict[str, Wish] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.match(line)
        if match is None:
            if line and not line.startswith("#"):
                raise ValueError(f"line {number} is no line of a configuration: {line}")
            continue
        name = match["name"] or match["off"]
        if name in found:
            raise ValueError(f"line {number}: {name} was set before, by: {found[name].line}")
        found[name] = Wish(name, match["value"], line)
    return list(found.values())


def settings(config: str) -> dict[str, str]:
    """Symbols that a .config sets, with their values; those that are off are left out."""
    return {
        match["name"]: match["value"]
        for line in config.splitlines()
        if (match := LINE.match(line)) is not None and match["name"]
    }


def lost(wanted: list[Wish], config: str) -> list[str]:
    """What became of each line that did not survive, such as ``A=y: gone`` or ``B=m: is y``."""
    now = settings(config)
    return [
        f"{wish.line}: {'is ' + now[wish.name] if wish.name in now else 'gone'}"
        for wish in wanted
        if now.get(wish.name) != wish.value
    ]
