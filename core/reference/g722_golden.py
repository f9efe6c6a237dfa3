# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes core/engine/tests/data/g722_golden.txt: what spandsp's G.722 makes of synthetic sound.

    python -m core.reference.g722_golden

The sounds are made by integer arithmetic alone, so that the engine's test
(core/engine/src/media/g722/tests.rs, the same generators in Rust) makes the very same samples. A
line is a sound and the FNV-1a hashes (64 bit) of its code, and of the code of the same at half the
level and what a decoder makes of that: spandsp's output wraps around where the filters overshoot, ours
is clipped, so they are compared where there is no overshoot.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from core.reference.g722 import Decoder, Encoder

GOLDEN = Path(__file__).parents[1] / "engine/tests/data/g722_golden.txt"
SAMPLES = 64_000
TURN = 1 << 32


def random(state: int = 1) -> Iterator[int]:
    """32 bits of a linear congruential generator."""
    while True:
        state = (state * 1664525 + 1013904223) % TURN
        yield state


def noise() -> Iterator[int]:
    """White; its level changes by the power of two every 1000 samples, up to full scale."""
    for n, value in enumerate(random()):
        yield ((value >> 16) - 32768) >> (n // 1000 % 16)


def square() -> Iterator[int]:
    """Full scale, from 50 Hz up."""
    phase = 0
    for n in range(TURN):
        phase = (phase + (50 + n // 10) * (TURN // 16000)) % TURN
        yield 32767 if phase < TURN // 2 else -32768


def triangle() -> Iterator[int]:
    """From 20 Hz up past the bands' border at 4 kHz; its level swells."""
    phase = 0
    for n in range(TURN):
        phase = (phase + (20 + n // 10) * (TURN // 16000)) % TURN
        height = abs((phase >> 16) - 32768) - 16384
        yield height * (n % 8000) // 4000


def clicks() -> Iterator[int]:
    """Silence with a full-scale sample now and then."""
    for n in range(TURN):
        yield (32767 if n % 1998 else -32768) if n % 999 == 0 else 0


SOUNDS: dict[str, Callable[[], Iterator[int]]] = {
    "noise": noise,
    "square": square,
    "triangle": triangle,
    "clicks": clicks,
}


def fnv(data: bytes) -> str:
    """FNV-1a, 64 bit."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def main() -> None:
    lines = [
        "# Made by core/reference/g722_golden.py with spandsp. Sound, code, code at half level, decoded."
    ]
    for name, sound in SOUNDS.items():
        samples = array.array("h", islice(sound(), SAMPLES))
        code = Encoder().encode(samples)
        half = Encoder().encode(array.array("h", [sample >> 1 for sample in samples]))
        decoded = Decoder().decode(half)
        lines.append(f"{name} {fnv(code)} {fnv(half)} {fnv(decoded.tobytes())}")
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
