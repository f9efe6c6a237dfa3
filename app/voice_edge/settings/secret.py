# SPDX-License-Identifier: GPL-3.0-or-later
"""A value that does not print itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class Secret:
    """A password or key. ``reveal()`` is the only way out, so that a grep finds every use."""

    __slots__ = ("_path", "_read", "_value")

    def __init__(
        self, value: str, path: Path | None = None, read: Callable[[Path], Secret] | None = None
    ) -> None:
        """``path`` is where it was read from, ``read`` does that again."""
        self._value = value
        self._path = path
        self._read = read

    def reread(self) -> Secret:
        """What its file holds now. Raises :class:`.errors.BadValueError`."""
        return self if self._path is None or self._read is None else self._read(self._path)

    def stamp(self) -> tuple[int, ...]:
        """Differs when its file was written or replaced."""
        if self._path is None:
            return ()
        try:
            now = self._path.stat()
        except OSError:
            return ()
        return (now.st_ino, now.st_mtime_ns, now.st_size)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is not pickled: it would be written in clear")
