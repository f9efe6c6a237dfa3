# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixed phrases, synthesised at start: an apology must not need the server that failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from .adapters import ServerError
from .ports import Voice

_log = logging.getLogger(__name__)


class PhraseCache:
    """PCM at the voice's rate by exact text. Filled at start, read by every call."""

    def __init__(self, voice: Voice, texts: Iterable[str]) -> None:
        self._voice = voice
        self._wanted = [t for t in dict.fromkeys(texts) if t]
        self._pcm: dict[str, bytes] = {}

    def get(self, text: str) -> bytes | None:
        return self._pcm.get(text)

    @property
    def complete(self) -> bool:
        return all(t in self._pcm for t in self._wanted)

    async def fill(self) -> bool:
        """Synthesise what is missing; False, with a warning, when the server did not do it."""
        for text in self._wanted:
            if text in self._pcm:
                continue
            try:
                async with contextlib.aclosing(self._voice.speak(text)) as chunks:
                    self._pcm[text] = b"".join([chunk async for chunk in chunks])
            except ServerError as error:
                _log.warning("phrases cannot be synthesised yet, trying again: %s", error)
                return False
        return True

    async def keep_filling(self, every_s: float = 10.0) -> None:
        """Try until all are there."""
        while not self.complete:
            await self.fill()
            await asyncio.sleep(0 if self.complete else every_s)
