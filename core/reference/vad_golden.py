# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes core/engine/tests/data/vad_golden.txt: the stock model's probabilities on synthetic sound.

    python -m core.reference.vad_golden

The sounds are made by integer arithmetic alone, so that the engine's test
(core/engine/src/signal/vad/tests/sounds.rs, the same generators in Rust) makes the very same
samples and the file need not hold them. A line is a sound, its sample rate and the probabilities;
`resonators` lines hold coefficients for the voice, which come from functions that round as they
like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from core.reference.silero import ROOT, WINDOW, Stock

GOLDEN = ROOT / "core/engine/tests/data/vad_golden.txt"
TURN = 1 << 32  # one period of a phase
VOWELS = ((700, 1220, 2600), (300, 2200, 2900), (500, 900, 2500))  # formants in Hz


def triangle(phase: int) -> int:
    """0 to 32768 and back over one turn, beginning at the top."""
    return abs(((phase % TURN) >> 16) - 32768)


def noise(_rate: int) -> Iterator[int]:
    """White, a tenth of full scale."""
    state = 1
    while True:
        state = (state * 1664525 + 1013904223) % TURN
        yield (state >> 16) // 10 - 3277


def sweep(rate: int) -> Iterator[int]:
    """Triangle wave rising from 100 Hz by 2 kHz a second."""
    phase = 0
    for n in range(TURN):
        phase += (100 + 2000 * n // rate) * TURN // rate
        yield triangle(phase) // 2 - 8192


def clipped(rate: int) -> Iterator[int]:
    """Square wave of 200 Hz at full scale for 0.3 s, then digital silence."""
    for n in range(TURN):
        high = n * 400 // rate % 2 == 0
        yield (32767 if high else -32768) if n * 10 < 3 * rate else 0


def resonators(rate: int) -> list[int]:
    """Feedback coefficients of each formant, scaled by 2**14; bandwidth 80 Hz."""
    radius = math.exp(-math.pi * 80 / rate)
    turn = 2 * math.pi / rate
    return [
        int(value * 16384)
        for vowel in VOWELS
        for formant in vowel
        for value in (2 * radius * math.cos(turn * formant), radius * radius)
    ]


def voice(rate: int) -> Iterator[int]:
    """Pulses of 100 to 160 Hz through formant resonators: four syllables a second, three vowels."""
    coefficients = resonators(rate)
    pitch = syllable = vibrato = 0
    memory = [(0, 0)] * 3
    for n in range(TURN):
        syllable += 4 * TURN // rate
        vibrato += TURN * 5 // rate // 4
        pitch += (100 + triangle(vibrato) * 60 // 32768) * TURN // rate
        pulse = 0
        if pitch >= TURN:
            pitch -= TURN
            pulse = 8000 * triangle(syllable) >> 15
        vowel = n // (rate * 3 // 8) % 3 * 6
        for k, (last, before) in enumerate(memory):
            b1, b2 = coefficients[vowel + 2 * k], coefficients[vowel + 2 * k + 1]
            memory[k] = ((pulse * 4096 + b1 * last - b2 * before) >> 14, last)
        yield max(-32768, min(32767, sum(last for last, _ in memory)))


SOUNDS: dict[str, tuple[Callable[[int], Iterator[int]], int]] = {  # with windows of each
    "noise": (noise, 30),
    "sweep": (sweep, 40),
    "clipped": (clipped, 20),
    "voice": (voice, 80),
}


def main() -> None:
    stock = Stock()
    lines = [
        "# Made by core/reference/vad_golden.py. Sound, rate, stock model's probability by window."
    ]
    for rate, window in WINDOW.items():
        lines.append(f"resonators {rate} " + " ".join(map(str, resonators(rate))))
        for name, (sound, windows) in SOUNDS.items():
            values = list(islice(sound(rate), windows * window))
            samples = (np.array(values) / 32768).astype(np.float32)
            found = stock.probabilities(samples, rate)
            lines.append(f"{name} {rate} " + " ".join(f"{p:.7f}" for p in found))
            print(f"{name} {rate}: {windows} windows, {np.sum(found >= 0.5)} of speech")
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
