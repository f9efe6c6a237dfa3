# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent: the agent's voice over a background, as core/reference/README.md says step by step ("Mixing")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.reference.level import Frame, factor, steps

HOLD = 15  # frames the background stays ducked after the agent's last sample
ATTACK, RELEASE = np.float32(5), np.float32(20)  # frames from open to ducked and back
NOISE_S, NOISE_RMS = 8, 103.62


@dataclass(frozen=True)
class MixerSettings:
    """In decibels: the agent's voice, the background, and what that is lowered by while the agent talks."""

    voice_db: float = 0.0
    background_db: float = 0.0
    duck_db: float = -12.0


class Mixer:
    """One call's."""

    def __init__(self, settings: MixerSettings, background: Frame | None = None) -> None:
        """`background` is a loop at the line's rate."""
        self._voice = factor(steps(settings.voice_db))
        self._open = factor(steps(settings.background_db))
        self._ducked = factor(steps(settings.background_db + settings.duck_db))
        self._factor, self._quiet = np.float32(0), HOLD
        self._loop, self._at, self._stopping = background, 0, False
        self.overs = 0

    def stop(self) -> None:
        """The background fades out."""
        self._stopping = True

    def mix(self, agent: Frame, talking: bool) -> Frame:
        """The next frame to send; `talking` is whether any sample of it is of a turn."""
        self._quiet = 0 if talking else min(self._quiet + 1, HOLD)
        if self._stopping and self._factor == 0:
            self._loop = None
        start, end = self._factor, self._next()
        self._factor = end
        length = len(agent)
        mixed = agent.astype(np.float32) * self._voice
        if self._loop is not None and (start != 0 or end != 0):
            places = (self._at + np.arange(length)) % len(self._loop)
            self._at = (self._at + length) % len(self._loop)
            step = (end - start) / np.float32(length)
            factors = start + step * np.arange(1, length + 1, dtype=np.float32)
            mixed = mixed + self._loop[places].astype(np.float32) * factors
        rounded = np.rint(mixed)
        self.overs += int(np.count_nonzero((rounded < -32768) | (rounded > 32767)))
        sent: Frame = rounded.clip(-32768, 32767).astype(np.int16)
        return sent

    def _next(self) -> np.float32:
        goal = np.float32(0)
        if self._loop is not None and not self._stopping:
            goal = self._ducked if self._quiet < HOLD else self._open
        down, up = self._open / ATTACK, self._open / RELEASE
        change = goal - self._factor
        if change > up:
            return self._factor + up
        if change < -down:
            return self._factor - down
        return goal


def comfort_noise(rate: int) -> Frame:
    """A loop of soft noise of -50 dBov."""
    seed, white = 1, np.zeros(NOISE_S * rate, np.int64)
    for i in range(len(white)):
        seed = (seed * 1664525 + 1013904223) % (1 << 32)
        white[i] = (seed >> 16) - 32768
    soft: NDArray[np.int64] = (np.roll(white, 1) + 2 * white + np.roll(white, -1)) >> 2
    rms = math.sqrt(int(soft @ soft) / len(soft))
    made: Frame = np.rint(soft * (NOISE_RMS / rms)).astype(np.int16)
    return made
