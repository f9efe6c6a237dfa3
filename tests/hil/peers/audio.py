# SPDX-License-Identifier: GPL-3.0-or-later
"""Tones, G.711 and WAV files for checking what was heard by its content."""

from __future__ import annotations

import array
import itertools
import math
import sys
import wave
from collections.abc import Sequence
from functools import cache
from pathlib import Path

RATE = 8000
A_LAW, MU_LAW, G722 = 8, 0, 9


def _a_law(sample: int) -> int:
    """G.711 A-law of one 16-bit sample (ITU-T G.711 table 1a, even bits inverted)."""
    sign = 0x80 if sample >= 0 else 0
    magnitude = min((sample if sample >= 0 else ~sample) >> 4, 2047)
    segment = max(magnitude.bit_length() - 4, 0)
    mantissa = magnitude >> max(segment - 1, 0) & 15
    return (sign | segment << 4 | mantissa) ^ 0x55


def _a_linear(code: int) -> int:
    code ^= 0x55
    segment, mantissa = code >> 4 & 7, code & 15
    value = (mantissa << 4) + 8 if segment == 0 else ((mantissa << 4) + 0x108) << (segment - 1)
    return value if code & 0x80 else -value


def _mu_law(sample: int) -> int:
    """G.711 µ-law of one 16-bit sample (ITU-T G.711 table 2a)."""
    sign = 0 if sample >= 0 else 0x80
    magnitude = min(abs(sample), 32635) + 132
    segment = magnitude.bit_length() - 8
    return ~(sign | segment << 4 | (magnitude >> (segment + 3) & 15)) & 0xFF


def _mu_linear(code: int) -> int:
    code = ~code & 0xFF
    value = (((code & 15) << 3) + 132 << (code >> 4 & 7)) - 132
    return -value if code & 0x80 else value


@cache
def _encoder(payload_type: int) -> bytes:
    law = _a_law if payload_type == A_LAW else _mu_law
    return bytes(law(value - 65536 if value > 32767 else value) for value in range(65536))


@cache
def _decoder(payload_type: int) -> tuple[int, ...]:
    law = _a_linear if payload_type == A_LAW else _mu_linear
    return tuple(law(code) for code in range(256))


def encode(samples: Sequence[int], payload_type: int) -> bytes:
    """16-bit samples as G.711; payload type 8 is A-law, 0 is µ-law (RFC 3551 table 4)."""
    table = _encoder(payload_type)
    return bytes(table[sample & 0xFFFF] for sample in samples)


def decode(payload: bytes, payload_type: int) -> array.array[int]:
    """G.711 bytes as 16-bit samples."""
    table = _decoder(payload_type)
    return array.array("h", [table[code] for code in payload])


def tone(hertz: float, seconds: float, *, rate: int = RATE, level: int = 8000) -> array.array[int]:
    """A sine; `level` is its peak."""
    step = 2 * math.pi * hertz / rate
    count = int(seconds * rate)
    return array.array("h", [round(level * math.sin(step * n)) for n in range(count)])


def melody(notes: Sequence[float], seconds_each: float, *, rate: int = RATE) -> array.array[int]:
    """Notes one after another: a signal whose order tells where playing began and whether it went on."""
    out = array.array("h")
    for note in notes:
        out.extend(tone(note, seconds_each, rate=rate))
    return out


def write_wav(path: Path, samples: array.array[int], *, rate: int = RATE) -> Path:
    """Mono 16-bit WAV."""
    data = array.array("h", samples)
    if sys.byteorder == "big":
        data.byteswap()
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(data.tobytes())
    return path


def read_wav(path: Path) -> tuple[int, list[array.array[int]]]:
    """Rate and one array of samples a channel."""
    with wave.open(str(path), "rb") as source:
        assert source.getsampwidth() == 2, (
            f"{path}: {source.getsampwidth() * 8} bits a sample, 16 wanted"
        )
        data = array.array("h", source.readframes(source.getnframes()))
        channels = source.getnchannels()
        rate = source.getframerate()
    if sys.byteorder == "big":
        data.byteswap()
    return rate, [data[channel::channels] for channel in range(channels)]


def share(samples: Sequence[int], hertz: float, *, rate: int = RATE) -> float:
    """Part of the signal's energy at `hertz`, 0 to 1 (Goertzel); 0 for silence.

    A clean tone through G.711 gives more than 0.98, the wrong law less than 0.9, noise next to nothing.
    """
    count = len(samples)
    if count == 0:
        return 0.0
    mean = sum(samples) / count
    coefficient = 2 * math.cos(2 * math.pi * hertz / rate)
    before = last = energy = 0.0
    for sample in samples:
        value = sample - mean
        energy += value * value
        before, last = last, value + coefficient * last - before
    if energy / count < 100:  # under 10 units of 32,768 (-70 dBFS): silence
        return 0.0
    power = before * before + last * last - coefficient * before * last
    return min(1.0, 2 * power / (count * energy))


def heard(
    samples: Sequence[int],
    notes: Sequence[float],
    *,
    rate: int = RATE,
    window_s: float = 0.1,
    purity: float = 0.97,
) -> list[float]:
    """The run of notes in a recording, one entry each time the note changes.

    Silence and windows with two notes are left out. Notes must be multiples of 1/window_s hertz.
    """
    size = int(rate * window_s)
    run: list[float] = []
    for start in range(0, len(samples) - size + 1, size):
        part = samples[start : start + size]
        for note in notes:
            if share(part, note, rate=rate) >= purity:
                if not run or run[-1] != note:
                    run.append(note)
                break
    return run


def in_order(run: Sequence[float], notes: Sequence[float]) -> bool:
    """True when every step of `run` is the next note of the (endlessly repeated) melody."""
    following = {note: notes[(place + 1) % len(notes)] for place, note in enumerate(notes)}
    return all(following[first] == second for first, second in itertools.pairwise(run))
