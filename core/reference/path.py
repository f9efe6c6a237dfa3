# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain Python path over recorded calls: code words in, every decision of every frame out.

What the core does in the tick, frame by frame and in its order: decode, windows, voice activity, decisions, delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.reference import g711
from core.reference.pool import Pool, State
from core.reference.speech import DEFAULTS, FRAME, Caller, Chunk, Event, Settings

LINEAR = "L16"


@dataclass(frozen=True)
class Line:
    """A call as it comes over the line: its rate, its codec (PCMA, PCMU, L16) and the payload without headers."""

    rate: int
    codec: str
    payload: bytes

    def frames(self) -> list[NDArray[np.int16]]:
        """The whole frames, decoded one by one."""
        length = FRAME[self.rate] * (2 if self.codec == LINEAR else 1)
        return [
            self._decode(self.payload[k : k + length])
            for k in range(0, len(self.payload) - length + 1, length)
        ]

    def _decode(self, payload: bytes) -> NDArray[np.int16]:
        if self.codec == LINEAR:
            return np.frombuffer(payload, "<i2")
        return g711.decode(np.frombuffer(payload, np.uint8), self.codec)


@dataclass
class Outcome:
    """What a path made of a call."""

    audio: NDArray[np.int16]
    """What voice activity and recognition hear: all frames, after gain."""
    probabilities: NDArray[np.float32]
    """Of speech, by window."""
    events: list[Event] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


def walk(line: Line, pool: Pool, settings: Settings = DEFAULTS) -> Outcome:
    """The call through the path, one frame after the other."""
    caller, state = Caller(line.rate, settings), State(line.rate)
    audio: list[NDArray[np.int16]] = []
    outcome = Outcome(np.zeros(0, np.int16), np.zeros(0, np.float32))
    probabilities: list[np.float32] = []
    for frame in line.frames():
        audio.append(frame)
        window, event = caller.hear(frame), None
        if window is not None:
            probabilities.append(pool.probability(state, window))
            event = caller.judge(probabilities[-1])
        if event is not None:
            outcome.events.append(event)
        chunk = caller.deliver(event)
        if chunk is not None:
            outcome.chunks.append(chunk)
    outcome.audio = np.concatenate([outcome.audio, *audio])
    outcome.probabilities = np.array(probabilities, np.float32)
    return outcome
