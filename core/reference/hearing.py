# SPDX-License-Identifier: GPL-3.0-or-later
"""Callers heard by the core while an agent talks: core/engine/examples/hearing.rs, which runs the tick's own code."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.reference.speech import Event

EXAMPLE = "hearing"
Samples = NDArray[np.int16]


@dataclass(frozen=True)
class Case:
    """What a caller's line brings, what the agent's line gets at the same time, and what is done about it."""

    rate: int
    caller: Samples
    sent: Samples
    echo_guard: bool = False
    noise_suppression: bool = False


@dataclass(frozen=True)
class Heard:
    """What became of a case."""

    events: list[Event]
    samples: Samples
    """As voice activity heard them."""

    def starts(self) -> list[int]:
        """Milliseconds at which a start of speech was told."""
        return [20 * (event.frame + 1) for event in self.events if event.started]


def run(program: Path, cases: Sequence[Case]) -> list[Heard]:
    """What became of each case.

    Raises:
        subprocess.CalledProcessError: the program failed; what it said is in `stderr`.
    """
    given = bytearray()
    for case in cases:
        frames = len(case.caller) // (case.rate // 50)
        given += struct.pack("<4I", case.rate, case.echo_guard, case.noise_suppression, frames)
        for sound in (case.caller, case.sent):
            given += sound[: frames * (case.rate // 50)].astype("<i2").tobytes()
    done = subprocess.run([str(program)], input=bytes(given), capture_output=True, check=True)
    found, at = [], 0
    for _ in cases:
        events, samples = struct.unpack_from("<2I", done.stdout, at)
        rows = np.frombuffer(done.stdout, "<u8", 3 * events, at + 8).reshape(-1, 3)
        at += 8 + 24 * events
        sound = np.frombuffer(done.stdout, "<i2", samples, at)
        at += 2 * samples
        found.append(Heard([Event(int(f), bool(s), int(n)) for f, s, n in rows], sound))
    return found
