# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines: a priority for journald, the call's number, tracebacks without what they quote."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from voice_edge import logs
from voice_edge.logs import CallLogger, Formatter


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    handler = logging.StreamHandler(out := io.StringIO())
    handler.setFormatter(Formatter(journal=True))
    log = logging.getLogger("voice_edge.test_logs")
    log.addHandler(handler)
    log.propagate = False
    yield out
    log.removeHandler(handler)
    log.propagate = True


LOG = CallLogger(logging.getLogger("voice_edge.test_logs"), 12)


def test_journal_lines_have_priority_and_call(stream: io.StringIO) -> None:
    LOG.warning("rx_lost=%d", 3)
    LOG.error("two\nlines")
    assert stream.getvalue().splitlines() == [
        "<4>voice_edge.test_logs: call=12 rx_lost=3",
        "<3>voice_edge.test_logs: call=12 two",
        "<3>lines",
    ]


def test_tracebacks_tell_the_place_but_not_the_words(stream: io.StringIO) -> None:
    class Ours(Exception):
        code = "llm.closed"

    for error in (ValueError("my PIN is 8642"), Ours("8642"), ExceptionGroup("8642", [KeyError()])):
        try:
            raise error
        except Exception:
            LOG.exception("failed")
    text = stream.getvalue()
    assert "8642" not in text
    assert "test_logs.py" in text
    assert "ValueError" in text
    assert "Ours llm.closed" in text
    assert all(line.startswith("<3>") for line in text.splitlines())


def test_setup_takes_the_level_and_keeps_others_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("asyncio", "aiohttp")}
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    try:
        logs.setup("debug")
        assert root.level == logging.DEBUG
        assert logging.getLogger("asyncio").level == logging.INFO  # it prints arguments below
        record = logging.LogRecord("a", logging.INFO, "", 0, "b", (), None)
        assert root.handlers[0].format(record) == "<6>a: b"
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for name, old in quiet.items():
            logging.getLogger(name).setLevel(old)
