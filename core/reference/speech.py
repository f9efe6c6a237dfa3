# SPDX-License-Identifier: GPL-3.0-or-later
"""What the core decides about speech, in plain Python: cutting of windows, start and end of speech, delivery.

Written from the text in core/engine/src/signal/speech.rs, not from its code. Positions are samples of
the caller's audio, counted from 0; probabilities and thresholds are float32, as in the core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WINDOW = {8000: 256, 16000: 512}  # samples the network takes at a time: 32 ms
FRAME = {8000: 160, 16000: 320}  # samples of a tick: 20 ms


@dataclass(frozen=True)
class Settings:
    """Times in ms; the defaults are the engine's."""

    threshold: float = 0.5
    release: float = 0.35
    start_ms: int = 64
    end_ms: int = 600
    preroll_ms: int = 300
    sure: float = 0.6
    """One window this probable starts speech alone, where no more than 64 ms are asked for."""


DEFAULTS = Settings()
SURE_UP_TO_MS = 64
WAVER_MS = 128  # how much longer than `start_ms` an onset may waver


@dataclass(frozen=True)
class Event:
    """A decision: in which frame it fell, what it was, and from which sample on it holds."""

    frame: int
    started: bool
    sample: int


@dataclass(frozen=True)
class Chunk:
    """Audio handed to the application in a frame: `length` samples from `sample` on."""

    frame: int
    sample: int
    length: int


class Decider:
    """Start and end of speech from the probabilities of windows."""

    def __init__(self, rate: int, settings: Settings = DEFAULTS) -> None:
        self.talking = False
        self._settings = settings
        self._window, self._per_ms = WINDOW[rate], rate // 1000
        self._threshold = np.float32(settings.threshold)
        self._release = np.float32(settings.release)
        self._sure = np.float32(settings.sure)
        self._onset: int | None = None  # silence: first sample of speech that may have begun
        self._pause: int | None = None  # speech: first sample of a pause that may end it

    def window(self, start: int, probability: np.float32) -> int | None:
        """Takes the window that begins at sample `start`.

        Returns the sample from which on `talking`, which has just changed, holds; None when it has not.
        """
        end = start + self._window
        decided = self._speaks if self.talking else self._silent
        sample = decided(start, end, probability)
        if sample is not None:
            self.talking = not self.talking
            self._onset = self._pause = None
        return sample

    def _silent(self, start: int, end: int, probability: np.float32) -> int | None:
        high = probability >= self._threshold
        if self._onset is not None:
            # What has begun is forgotten below the release, or when it has come to nothing for long.
            longest = (self._settings.start_ms + WAVER_MS) * self._per_ms
            stale = end - self._onset > longest
            if not high and (probability < self._release or stale):
                self._onset = None
        elif high:
            self._onset = start
        if not high or self._onset is None:
            return None
        sure = probability >= self._sure and self._settings.start_ms <= SURE_UP_TO_MS
        long = end - self._onset >= self._settings.start_ms * self._per_ms
        return self._onset if sure or long else None

    def _speaks(self, start: int, end: int, probability: np.float32) -> int | None:
        if probability >= self._threshold:
            self._pause = None
        elif self._pause is None and probability < self._release:
            self._pause = start
        if self._pause is None:
            return None
        over = end - self._pause >= self._settings.end_ms * self._per_ms
        return self._pause if over else None


class Caller:
    """One caller: frames in, windows out; probabilities in, events and audio out."""

    def __init__(self, rate: int, settings: Settings = DEFAULTS) -> None:
        self.decider = Decider(rate, settings)
        self._rate, self._window = rate, WINDOW[rate]
        self._preroll = settings.preroll_ms * rate // 1000
        self._pending = np.zeros(0, np.float32)
        self._judged = 0  # samples of the windows that were decided upon
        self._handed = 0  # samples before this one were handed over
        self.heard = 0  # samples
        self.frames = 0

    def hear(self, frame: NDArray[np.int16]) -> NDArray[np.float32] | None:
        """Takes a frame. Returns the window that is full now, values in [-1, 1): its probability goes to `judge`."""
        self.heard += len(frame)
        self.frames += 1
        samples = frame.astype(np.float32) / np.float32(32768)
        self._pending = np.concatenate([self._pending, samples])
        if len(self._pending) < self._window:
            return None
        window, self._pending = self._pending[: self._window], self._pending[self._window :]
        return window

    def judge(self, probability: np.float32) -> Event | None:
        """The window that `hear` gave is speech with this probability."""
        sample = self.decider.window(self._judged, probability)
        self._judged += self._window
        if sample is None:
            return None
        if self.decider.talking:
            self._handed = max(self._handed, sample - self._preroll, 0)
        return Event(self.frames - 1, self.decider.talking, sample)

    def deliver(self, event: Event | None) -> Chunk | None:
        """Audio to hand over at the end of the frame: while the caller talks, and once more when that ends."""
        ended = event is not None and not event.started
        if not self.decider.talking and not ended:
            return None
        chunk = Chunk(self.frames - 1, self._handed, self.heard - self._handed)
        self._handed = self.heard
        return chunk if chunk.length else None
