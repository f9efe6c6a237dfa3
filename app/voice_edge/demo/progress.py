# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user sees while things take their time: one line a step, with the seconds gone by."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import TextIO

_REMIND_S = 5.0


class Progress:
    """Lines on ``stream``, each with the time since the start."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        gone = time.monotonic() - self._start
        print(f"[{gone:6.1f} s] {text}", file=self._stream, flush=True)

    @contextlib.asynccontextmanager
    async def step(self, text: str) -> AsyncIterator[None]:
        """Announce a step, remind of it every few seconds, and say how long it took."""
        self.say(f"{text} …")
        begun = time.monotonic()
        reminder = asyncio.create_task(self._remind(text))
        try:
            yield
        finally:
            reminder.cancel()
        self.say(f"{text}: done in {time.monotonic() - begun:.1f} s")

    async def _remind(self, text: str) -> None:
        begun = time.monotonic()
        while True:
            await asyncio.sleep(_REMIND_S)
            self.say(f"{text} … {time.monotonic() - begun:.0f} s so far")
