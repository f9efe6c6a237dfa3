# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain Python path on real calls: the core tells every frame, Python levels it and decides about speech.

For comparison with the core's own path, which the application cannot tell from it: the same events come out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator

import numpy as np
from numpy.typing import NDArray

from core.reference.level import NO_GAIN, Gain, GainSettings
from core.reference.pool import Pool, State
from core.reference.speech import DEFAULTS, FRAME, WAVER_MS, Caller, Chunk, Settings
from voicecore import Audio, Call, CallEvent, SpeechEnded, SpeechStarted


class Ear:
    """One caller at `rate`, who is heard by the threads of `pool`."""

    def __init__(
        self, pool: Pool, rate: int, settings: Settings = DEFAULTS, gain: GainSettings = NO_GAIN
    ) -> None:
        self._pool, self._rate = pool, rate
        self._caller, self._state, self._gain = Caller(rate, settings), State(rate), Gain(gain)
        kept_ms = settings.preroll_ms + settings.start_ms + settings.end_ms + WAVER_MS + 100
        self._stamps: deque[int] = deque(maxlen=kept_ms // 20 + 1)
        self._frames: deque[bytes] = deque(maxlen=kept_ms // 20 + 1)

    async def hear(self, audio: Audio) -> list[CallEvent]:
        """What is told of the frames in ``audio``, whole ones, of which none was told before."""
        told: list[CallEvent] = []
        samples, length = np.frombuffer(audio.pcm, "<i2"), FRAME[self._rate]
        for k in range(0, len(samples) - length + 1, length):
            at_ns = audio.at_ns + k * 1_000_000_000 // self._rate
            told += await self._frame(samples[k : k + length], at_ns)
        return told

    async def _frame(self, frame: NDArray[np.int16], at_ns: int) -> list[CallEvent]:
        heard = self._gain.run(frame)
        self._stamps.append(at_ns)
        self._frames.append(heard.astype("<i2").tobytes())
        window, event = self._caller.hear(heard), None
        if window is not None:
            asked = self._pool.submit(self._state, window)
            event = self._caller.judge(await asyncio.wrap_future(asked))
        now_ns = time.monotonic_ns()
        told: list[CallEvent] = list(self._audio(self._caller.deliver(event)))
        if event is not None and event.started:
            told.insert(0, SpeechStarted(at_ns=self._at_ns(event.sample), decided_ns=now_ns))
        elif event is not None:
            told.append(SpeechEnded(at_ns=self._at_ns(event.sample), decided_ns=now_ns))
        return told

    def _audio(self, chunk: Chunk | None) -> Iterator[Audio]:
        if chunk is not None:
            kept = b"".join(self._frames)
            pcm = kept[-2 * chunk.length :]
            yield Audio(at_ns=self._at_ns(chunk.sample), pcm=pcm)

    def _at_ns(self, sample: int) -> int:
        """When a sample arrived."""
        number, rest = divmod(sample, FRAME[self._rate])
        back = number - self._caller.frames
        stamp = self._stamps[max(back, -len(self._stamps))]
        return stamp + rest * 1_000_000_000 // self._rate


class PythonPath:
    """Hears all calls of an engine with ``delivery="frames"``, ``chunk_ms=20``, ``vad=False`` and ``gain=False``."""

    def __init__(self, settings: Settings = DEFAULTS, gain: GainSettings = NO_GAIN) -> None:
        self._settings, self._gain = settings, gain
        self._pool = Pool()

    async def events(self, call: Call) -> AsyncIterator[CallEvent]:
        """As `Call.events` where the core decides about speech."""
        ear: Ear | None = None
        async for event in call.events():
            if not isinstance(event, Audio):
                yield event
                continue
            if ear is None:
                ear = Ear(self._pool, call.rate, self._settings, self._gain)
            for told in await ear.hear(event):
                yield told

    def close(self) -> None:
        """Ends its threads."""
        self._pool.close()
