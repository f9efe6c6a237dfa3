# SPDX-License-Identifier: GPL-3.0-or-later
"""From TOML to :class:`Settings`, collecting every problem instead of stopping at the first."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from . import values
from .errors import BadValueError
from .model import Rule, Settings
from .paths import json_table
from .problems import Problem, SettingsError, key_lines
from .rules import cross_checks
from .secret import Secret

_FAILED = object()
EXAMPLE = "config/voice-edge.example.toml"
T = TypeVar("T")


def load(path: Path) -> Settings:
    """Read and check ``path``. Raises :class:`SettingsError` with all that is wrong."""
    try:
        # With the mark that some editors put before UTF-8 or without.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        problem = Problem(
            str(path), "", f"cannot be read: {reason}", "Give an existing file with --config"
        )
        raise SettingsError([problem]) from None
    return loads(text, file=str(path), base=path.resolve().parent)


def loads(text: str, *, file: str = "<settings>", base: Path | None = None) -> Settings:
    """As :func:`load`, from text; relative paths in it start at ``base``."""
    return read(Settings, text, cross_checks, file=file, base=base)


def read(
    cls: type[T],
    text: str,
    checks: Callable[[T], Iterable[tuple[str, str, str]]],
    *,
    file: str,
    base: Path | None = None,
    example: str = EXAMPLE,
) -> T:
    """Read any frozen dataclass of :func:`~.model.setting` fields; ``checks`` look at it as a whole.

    ``example`` is where the remedy for a missing setting points to.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = Problem(file, "", f"is not TOML: {error}", "Mend the line named")
        raise SettingsError([problem]) from None
    except RecursionError:
        problem = Problem(
            file, "", "is nested too deep", "Take the arrays or tables within each other apart"
        )
        raise SettingsError([problem]) from None
    reader = _Reader(file, key_lines(text), base or Path.cwd(), example)
    settings = reader.table(cls, tree, "")
    if not reader.problems:
        for key, what, remedy in checks(settings):
            reader.problem(key, what, remedy)
    if reader.problems:
        raise SettingsError(sorted(reader.problems, key=lambda p: (p.line or 0, p.key)))
    return cast(T, settings)


class _Reader:
    def __init__(self, file: str, lines: dict[str, int], base: Path, example: str) -> None:
        self._file = file
        self._example = example
        self._lines = lines
        self._base = base
        self.problems: list[Problem] = []

    def problem(self, key: str, what: str, remedy: str) -> None:
        line = self._lines.get(key)
        if line is None and "." in key:  # a missing key: the line of its table
            line = self._lines.get(key.rpartition(".")[0])
        self.problems.append(Problem(self._file, key, what, remedy, line))

    def table(self, cls: type[Any], tree: Mapping[str, Any], prefix: str) -> Any:
        hints = typing.get_type_hints(cls)
        fields = {f.name: f for f in dataclasses.fields(cls)}
        for key in tree.keys() - fields.keys():
            near = difflib.get_close_matches(key, fields, n=1, cutoff=0.6)
            remedy = (
                f'Did you mean "{near[0]}"?'
                if near
                else f"Remove it; known here: {', '.join(fields)}"
            )
            self.problem(prefix + key, "unknown setting", remedy)
        out: dict[str, Any] = {}
        for name, field in fields.items():
            key, hint = prefix + name, hints[name]
            if dataclasses.is_dataclass(hint):
                sub = tree.get(name, {})
                if isinstance(sub, Mapping):
                    out[name] = self.table(cast(type[Any], hint), sub, key + ".")
                else:
                    self.problem(key, "is not a table", f"Write it as [{key}]")
            elif name in tree:
                value = self._value(tree[name], hint, field, key)
                if value is not _FAILED:
                    out[name] = value
            elif (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                self.problem(key, "is missing", f"Add it; {self._example} explains it")
        if self.problems:
            return None
        return cls(**out)

    def _value(self, value: Any, hint: Any, field: dataclasses.Field[Any], key: str) -> Any:
        try:
            return self._convert(value, hint, field.metadata["rule"], key)
        except BadValueError as error:
            # A private value (repr off) or a secret is not quoted: this text reaches logs and consoles.
            hidden = not field.repr or field.metadata["rule"].kind in ("secret", "sip_uri")
            self.problem(
                key, "is not accepted" if hidden and error.quotes else error.what, error.remedy
            )
            return _FAILED

    def _convert(self, value: Any, hint: Any, rule: Rule, key: str) -> Any:
        origin = typing.get_origin(hint)
        if origin is types.UnionType or origin is typing.Union:
            hint = next(a for a in typing.get_args(hint) if a is not type(None))
            origin = typing.get_origin(hint)
        if origin is tuple:
            return self._array(value, typing.get_args(hint)[0], rule, key)
        if hint in (Path, Secret):
            return values.special(values.typed(value, str), rule.kind, self._base)
        if origin is not None:  # Mapping[str, Any]: handed on as it is
            return json_table(values.typed(value, dict))
        return values.special(values.within(values.typed(value, hint), rule), rule.kind, self._base)

    def _array(self, value: Any, item: Any, rule: Rule, key: str) -> Any:
        entries = values.typed(value, list)
        if dataclasses.is_dataclass(item):
            if not all(isinstance(e, Mapping) for e in entries):
                raise BadValueError("is not an array of tables", f"Write each as [[{key}]]")
            rows = [
                self.table(cast(type[Any], item), e, f"{key}[{i}].") for i, e in enumerate(entries)
            ]
            return tuple(rows)
        return tuple(self._convert(e, item, rule, key) for e in entries)
