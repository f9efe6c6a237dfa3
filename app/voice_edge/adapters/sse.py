# SPDX-License-Identifier: GPL-3.0-or-later
"""Server-sent events, sans-I/O (WHATWG HTML, 9.2.6 "Interpreting an event stream")."""

from __future__ import annotations

import codecs


class SseError(Exception):
    """The stream is not one of events."""


class SseParser:
    """``feed`` bytes cut anywhere, get the data of each complete event."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit  # characters of one event
        self._decode = codecs.getincrementaldecoder("utf-8")("strict").decode
        self._line = ""
        self._data: list[str] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        try:
            text = self._decode(chunk)
        except UnicodeDecodeError:
            raise SseError("not UTF-8") from None
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        if text.endswith("\r"):
            self._after_cr = True
        events: list[str] = []
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            self._take(self._line + line, events)
            self._line = ""
        self._line += rest
        if len(self._line) + self._size > self._limit:
            raise SseError("an event is too long")
        return events

    def _take(self, line: str, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(":")  # a comment has the empty name
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(value)
            if self._size > self._limit:
                raise SseError("an event is too long")
