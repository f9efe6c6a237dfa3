# SPDX-License-Identifier: GPL-3.0-or-later
"""The script the stand-in language model follows: which words bring which reply.

A TOML file::

    [model]
    first_token_s = 0.15        # delay before the first token
    tokens_per_s = 60.0         # 0 = all at once

    [[rule]]                    # the first rule that fits wins
    any = ["opening hours", "open"]   # one of these phrases is in the last user message
    all = ["sunday"]                  # and every one of these
    reply = "We are closed on Sundays."
    first_token_s = 1.0         # optional, for this rule only; tokens_per_s likewise

    [default]
    reply = "I did not get that. Could you say it again?"

Phrases are compared word by word, without regard to case and punctuation. ``{last}`` in a reply
stands for the user's last words.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class ScriptError(ValueError):
    """The script file is wrong; the message names the file, the key and the remedy."""


def words(text: str) -> list[str]:
    """Lower-case words of a text, punctuation dropped."""
    return _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def contains(haystack: list[str], phrase: list[str]) -> bool:
    """Whether the words of ``phrase`` stand side by side in ``haystack``."""
    size = len(phrase)
    return size > 0 and any(
        haystack[start : start + size] == phrase for start in range(len(haystack) - size + 1)
    )


@dataclass(frozen=True)
class Reply:
    """What to say and how fast: seconds to the first token, tokens a second (0 = at once)."""

    text: str
    first_token_s: float
    tokens_per_s: float


@dataclass(frozen=True)
class Rule:
    any_of: tuple[tuple[str, ...], ...]
    all_of: tuple[tuple[str, ...], ...]
    reply: Reply

    def fits(self, said: list[str]) -> bool:
        if self.any_of and not any(contains(said, list(phrase)) for phrase in self.any_of):
            return False
        return all(contains(said, list(phrase)) for phrase in self.all_of)


@dataclass(frozen=True)
class Script:
    rules: tuple[Rule, ...]
    default: Reply

    def reply(self, last_user: str) -> Reply:
        """The reply to the user's last message."""
        said = words(last_user)
        for rule in self.rules:
            if rule.fits(said):
                return _filled(rule.reply, last_user)
        return _filled(self.default, last_user)


def _filled(reply: Reply, last_user: str) -> Reply:
    text = reply.text.replace("{last}", last_user.strip())
    return Reply(text, reply.first_token_s, reply.tokens_per_s)


def load(path: Path | None) -> Script:
    """Read a script; without a path, the one that comes with the package."""
    if path is None:
        source = "default_script.toml"
        text = resources.files(__package__).joinpath(source).read_text(encoding="utf-8")
    else:
        source = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ScriptError(f"{source}: cannot be read: {error.strerror}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"{source}: not valid TOML: {error}") from error
    return parse(table, source)


def parse(table: dict[str, Any], source: str = "script") -> Script:
    """Check a script's table (``source`` names it in errors)."""
    model = _table(table, "model", source)
    first = _number(model, "first_token_s", 0.15, f"{source}: [model]")
    rate = _number(model, "tokens_per_s", 60.0, f"{source}: [model]")
    rules = table.get("rule", [])
    if not isinstance(rules, list):
        raise ScriptError(f"{source}: rule must be an array of tables, written [[rule]]")
    parsed = []
    for index, rule in enumerate(rules, 1):
        where = f"{source}: [[rule]] number {index}"
        any_of, all_of = _phrases(rule, "any", where), _phrases(rule, "all", where)
        if not any_of and not all_of:
            raise ScriptError(f"{where}: give at least one phrase in any or all")
        parsed.append(Rule(any_of, all_of, _reply(rule, first, rate, where)))
    default = _reply(_table(table, "default", source), first, rate, f"{source}: [default]")
    return Script(tuple(parsed), default)


def _table(table: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ScriptError(f"{source}: {key} must be a table, written [{key}]")
    return value


def _number(table: dict[str, Any], key: str, default: float, where: str) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e6:
        raise ScriptError(f"{where}: {key} must be a number from 0 to 1000000")
    return float(value)


def _phrases(rule: Any, key: str, where: str) -> tuple[tuple[str, ...], ...]:
    value = rule.get(key, []) if isinstance(rule, dict) else None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ScriptError(f"{where}: {key} must be a list of phrases")
    phrases = tuple(tuple(words(item)) for item in value)
    if not all(phrases):
        raise ScriptError(f"{where}: {key} holds a phrase without a word")
    return phrases


def _reply(table: dict[str, Any], first: float, rate: float, where: str) -> Reply:
    text = table.get("reply")
    if not isinstance(text, str) or not text.strip():
        raise ScriptError(f"{where}: reply must be a text that is not empty")
    return Reply(
        text.strip(),
        _number(table, "first_token_s", first, where),
        _number(table, "tokens_per_s", rate, where),
    )
