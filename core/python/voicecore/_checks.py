# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of what is handed to the native module, which has numbers of 32 and 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

from voicecore._errors import ConfigError

U32 = 2**32 - 1
U64 = 2**64 - 1
DAY_S = 86_400


def whole(name: str, value: int, least: int, most: int) -> int:
    """``value`` when it is within the range."""
    if not least <= value <= most:
        raise ConfigError(f"{name}: {_shown(value)} is out of range; use {least} to {most}")
    return value


def seconds(name: str, value: float, least: float = 0.0, most: float = DAY_S) -> float:
    """``value`` when it is a number within the range."""
    if not least <= value <= most:  # not a number fails, too
        raise ConfigError(
            f"{name}: {_shown(value)} is out of range; use {least:g} to {most:g} seconds"
        )
    return value


def patience(value: float) -> float:
    """A ``timeout_s``; infinite is for ever."""
    if not value >= 0:
        raise ConfigError(f"timeout_s: {_shown(value)} is out of range; use 0 seconds or more")
    return value


def label(value: str) -> str:
    """What log lines call something: one line of them."""
    if not value.strip() or len(value) > 64 or not value.isprintable():
        raise ConfigError(
            "trunk.name: empty, longer than 64 characters, or with a control character; "
            "give it a short name on one line"
        )
    return value


def codecs(names: Sequence[str] | None) -> list[str] | None:
    """Names of codecs to offer; none at all is no offer."""
    if names is None:
        return None
    if isinstance(names, str) or not names:
        raise ConfigError("codecs: no list of codecs; give one or more of PCMA, PCMU, G722")
    return list(names)


def _shown(value: float) -> str:
    if isinstance(value, int) and abs(value) > U64:
        return "a number of more than 64 bits"
    return str(value)
