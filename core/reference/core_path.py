# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded calls through the core: core/engine/examples/parity.rs, which runs the tick's own code."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.reference.path import Line, Outcome
from core.reference.speech import Chunk, Event

CODECS = ("PCMA", "PCMU", "L16")
EXAMPLE = "parity"


def run(program: Path, backend: str | None, lines: Sequence[Line]) -> tuple[str, list[Outcome]]:
    """Name of the voice-activity back end, and what became of each call; they are carried side by side.

    Raises:
        subprocess.CalledProcessError: the program failed; what it said is in `stderr`.
    """
    given = bytearray()
    for line in lines:
        given += struct.pack("<3I", line.rate, CODECS.index(line.codec), len(line.payload))
        given += line.payload
    command = [str(program), *([backend] if backend else [])]
    done = subprocess.run(command, input=bytes(given), capture_output=True, check=True)
    reader = _Reader(done.stdout)
    return done.stderr.decode().strip(), [reader.outcome() for _ in lines]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, count: int, kind: str) -> NDArray[Any]:
        taken: NDArray[Any] = np.frombuffer(self._data, kind, count, self._at)
        self._at += taken.nbytes
        return taken

    def outcome(self) -> Outcome:
        samples, windows, events, chunks = (int(count) for count in self._take(4, "<u4"))
        return Outcome(
            self._take(samples, "<i2"),
            self._take(windows, "<f4"),
            [
                Event(int(f), bool(started), int(at))
                for f, started, at in self._take(3 * events, "<u8").reshape(-1, 3)
            ],
            [
                Chunk(int(f), int(at), int(n))
                for f, at, n in self._take(3 * chunks, "<u8").reshape(-1, 3)
            ],
        )
