# SPDX-License-Identifier: GPL-3.0-or-later
"""What wideband needs of a test: recorded speech at 16 kHz, measures of likeness and of what lies above 4 kHz."""

from __future__ import annotations

import array
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.reference import g722

from . import audio
from .rtp import FRAME, header
from .script import Talker

RATE = 16_000
_ROOT = Path(__file__).parents[3]


@cache
def folder() -> Path:
    """Recorded speech at 16 kHz: the pinned package, unpacked into the user's cache."""
    run = subprocess.run(
        [sys.executable, "-m", "tools.fetch", "pocketsphinx-testdata"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(run.stdout.strip())


@cache
def speech(name: str) -> array.array[int]:
    """A recording, such as `005`: a whole number of 20 ms frames of it."""
    (path,) = folder().rglob(f"{name}.wav")
    rate, (samples,) = audio.read_wav(path)
    assert rate == RATE, f"{path} has {rate} Hz"
    return samples[: len(samples) // (2 * FRAME) * 2 * FRAME]


def power(samples: Sequence[int], low: float, high: float, rate: int = RATE) -> float:
    """Mean power between two frequencies, in dB of a full-scale square wave."""
    x = np.asarray(samples, dtype=float)
    spectrum = np.abs(np.fft.rfft(x)) ** 2
    frequencies = np.fft.rfftfreq(len(x), 1 / rate)
    part = spectrum[(frequencies >= low) & (frequencies < high)].sum() * 2 / len(x) ** 2
    return float(10 * np.log10(max(part, 1e-9) / 32768**2))


def likeness(heard: Sequence[int], said: Sequence[int]) -> tuple[float, int]:
    """Correlation of `said` with the stretch of `heard` that resembles it most, and where that begins."""
    x, y = np.asarray(heard, dtype=float), np.asarray(said, dtype=float)
    size = 1 << (len(x) + len(y)).bit_length()
    products = np.fft.irfft(np.fft.rfft(x, size) * np.conj(np.fft.rfft(y, size)), size)
    places = len(x) - len(y) + 1
    assert places > 0, f"{len(x)} samples were heard, {len(y)} were said"
    sums = np.concatenate([[0.0], np.cumsum(x * x)])
    energies = sums[len(y) :] - sums[:places]
    scores = products[:places] / np.sqrt(np.maximum(energies, 1.0) * (y @ y))
    best = int(np.argmax(scores))
    return float(scores[best]), best


def stretches(samples: Sequence[int], seconds: float = 0.5) -> Iterator[NDArray[np.int16]]:
    """Pieces loud enough to be recognised."""
    size = int(seconds * RATE)
    for start in range(0, len(samples) - size + 1, size):
        part = np.asarray(samples[start : start + size], dtype=np.int16)
        if np.sqrt(np.mean(part.astype(float) ** 2)) > 200:
            yield part


class WideTalker(Talker):
    """A `Talker` on G.722: packets of any length, whose timestamps count 8000 a second all the same."""

    def __init__(self, **place: int) -> None:
        super().__init__(payload_type=audio.G722, **place)
        self._encoder = g722.Encoder()
        self.coded = b""

    def say(self, samples: Sequence[int], ms: int = 20) -> Iterator[tuple[float, bytes]]:
        """Audio of 16 kHz in packets of so many ms, each sent when its last sample was spoken."""
        size = 16 * ms
        for start in range(0, len(samples) - size + 1, size):
            payload = self._encoder.encode(array.array("h", samples[start : start + size]))
            self.coded += payload
            self.at += ms / 1000
            head = header(self.payload_type, self.sequence, self.timestamp, self.ssrc)
            self.sequence = self.sequence + 1 & 0xFFFF
            self.timestamp = self.timestamp + 8 * ms & 0xFFFFFFFF
            yield self.at, head + payload
