# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines for journald and for people, without anything a caller said, typed or is called."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any

_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class Formatter(logging.Formatter):
    """Under journald ``<6>voice_edge.call: text``; otherwise with time and level.

    Tracebacks keep places and exception types but no messages: a message of someone else's may
    quote what it choked on, which may be a transcript.
    """

    def __init__(self, *, journal: bool) -> None:
        super().__init__(
            "%(name)s: %(message)s"
            if journal
            else "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
            "%H:%M:%S",
        )
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another handler's rendering, with the message in it
        text = super().format(record)
        record.exc_text = None
        if not self._journal:
            return text
        prefix = f"<{_PRIORITY.get(record.levelname, 6)}>"
        return "\n".join(prefix + line for line in text.splitlines())

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        kind, error, trace = ei
        if kind is None or error is None:
            return ""
        lines = [line.rstrip() for line in traceback.format_tb(trace)]
        return "\n".join([*lines, describe(error)])


def describe(error: BaseException) -> str:
    """An exception for the log: our own errors carry a code and are fit to print, others not."""
    name = type(error).__name__
    code = getattr(error, "code", None)
    return f"{name} {code}" if isinstance(code, str) else name


class CallLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts the call's number before each message."""

    def __init__(self, logger: logging.Logger, call_id: int) -> None:
        super().__init__(logger, {"call": call_id})

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return f"call={(self.extra or {})['call']} {msg}", kwargs


def setup(level: str) -> None:
    """Everything to standard error; ``JOURNAL_STREAM`` tells that journald reads it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(journal="JOURNAL_STREAM" in os.environ))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # asyncio's debug lines show the repr of callbacks, and with it their arguments.
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))
    logging.getLogger("aiohttp").setLevel(max(logging.WARNING, root.level))
