# SPDX-License-Identifier: GPL-3.0-or-later
"""Level of a caller and gain control, as core/reference/README.md says step by step ("Tables", "Level", "Gain")."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.int16]

FULL = 361  # 0 dBov, in steps of a quarter of a decibel
PARTS = 64  # of a step


def _running(factor: float, count: int) -> list[float]:
    values = [1.0]
    while len(values) < count:
        values.append(values[-1] * factor)
    return values


POWERS = np.rint(np.array(_running(1.0592537251772889, FULL + 1))).astype(np.int64)
_UP = _running(1.0292005271944282, 121)
_LEAST = -240  # -60 dB


def factor(step: int) -> np.float32:
    """Of an amplitude, `step` in quarter decibels; what lies beyond -60 to 30 dB is taken for the edge."""
    if step >= 0:
        return np.float32(_UP[min(step, 120)])
    divisor, rest = 1.0, -max(step, _LEAST)
    while rest > 0:  # the table reaches 20 dB down at a time
        divisor *= _UP[min(rest, 80)]
        rest -= 80
    return np.float32(1.0 / divisor)


def steps(db: float) -> int:
    """Decibels as quarter decibels."""
    return int(np.rint(4 * db))


@dataclass(frozen=True)
class GainSettings:
    """Target in dBov, greatest gain in dB."""

    enabled: bool = False
    target_dbov: float = -26.0
    max_db: float = 18.0


NO_GAIN = GainSettings()
LEAST_GAIN = -48  # -12 dB
NOISE_TOP = FULL - 4 * 50  # noise is not raised above -50 dBov
LIMIT = np.float32(29204.0)  # a peak of -1 dBov
RECOVERY = np.float32(1.0232930)
ONE = np.float32(1)


@dataclass
class Gain:
    """One caller's level and gain."""

    settings: GainSettings = NO_GAIN
    gain: int = 0
    """In 1/64 steps."""
    _last: np.float32 = ONE
    _current: int = FULL
    _count: int = 0
    _at: int = 0
    _least: list[int] = field(default_factory=lambda: [FULL] * 8)

    def __post_init__(self) -> None:
        self._target = FULL + steps(self.settings.target_dbov)
        self._most = steps(self.settings.max_db)
        self.speech = self._target * PARTS

    def run(self, frame: Frame) -> Frame:
        """The frame after the gain."""
        floor, active = self._measure(frame)
        if not self.settings.enabled:
            return frame
        top = min(self._most, max(0, NOISE_TOP - floor)) * PARTS
        want = min(max(self._target * PARTS - self.speech, LEAST_GAIN * PARTS), top)
        if active:
            self.gain += min(max(want - self.gain, -128), 32)
        else:
            self.gain += min(max(want - self.gain, -16), 0)
        peak = int(np.abs(frame.astype(np.int32)).max())
        cap = max(ONE, LIMIT / np.float32(max(peak, 1)))
        start = min(self._last, cap)
        end = min(factor(self.gain >> 6), cap, self._last * RECOVERY)
        self._last = end
        return _scaled(frame, start, end)

    def _measure(self, frame: Frame) -> tuple[int, bool]:
        """Noise floor in steps, and whether the frame has speech in it; follows the level of speech."""
        samples = frame.astype(np.int64)
        power = int(samples @ samples) // len(frame)
        level = max(0, int(np.searchsorted(POWERS, power, side="right")) - 1)
        self._current = min(self._current, level)
        floor = min(self._current, *self._least)
        self._count += 1
        if self._count == 10:
            self._least[self._at] = self._current
            self._at = (self._at + 1) % 8
            self._current, self._count = FULL, 0
        active = level >= floor + 36 and level >= FULL - 4 * 55
        if active:
            away = level * PARTS - self.speech
            self.speech += away >> 4 if away > 0 else away >> 5
        return floor, active


def _scaled(frame: Frame, start: np.float32, end: np.float32) -> Frame:
    """Multiplied with a factor that goes from `start` to `end` in a line."""
    step = (end - start) / np.float32(len(frame))
    factors = start + step * np.arange(1, len(frame) + 1, dtype=np.float32)
    return np.rint(frame.astype(np.float32) * factors).clip(-32768, 32767).astype(np.int16)
