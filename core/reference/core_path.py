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
NO_LOOP = 0xFFFF_FFFF


def run(program: Path, backend: Sequence[str], lines: Sequence[Line]) -> tuple[str, list[Outcome]]:
    """Name of the voice-activity back end, and what became of each call; they are carried side by side.

    `backend` is empty for the kernel's best, else the name of one, and the path of libonnxruntime to use that instead.

    Raises:
        subprocess.CalledProcessError: the program failed; what it said is in `stderr`.
    """
    given = bytearray()
    for line in lines:
        given += _written(line)
    done = subprocess.run(
        [str(program), *backend], input=bytes(given), capture_output=True, check=True
    )
    reader = _Reader(done.stdout)
    return done.stderr.decode().splitlines()[0], [reader.outcome() for _ in lines]


def _written(line: Line) -> bytes:
    gain, agent = line.gain, line.agent
    head = struct.pack("<3I", line.rate, CODECS.index(line.codec), len(line.payload))
    head += struct.pack("<I2d", gain.enabled, gain.target_dbov, gain.max_db)
    if agent is None:
        return head + struct.pack("<I", 0) + line.payload
    mixing, background = agent.settings, agent.background
    # Comfort noise is no loop of ours: its length says so.
    loop = NO_LOOP if background is None else len(background)
    head += struct.pack(
        "<I3d", len(agent.talking), mixing.voice_db, mixing.background_db, mixing.duck_db
    )
    head += struct.pack("<2I", agent.stopped, loop)
    parts = [head, line.payload, agent.voice.astype("<i2"), agent.talking.astype(np.uint8)]
    return b"".join(bytes(part) for part in [*parts, *([] if background is None else [background])])


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, count: int, kind: str) -> NDArray[Any]:
        taken: NDArray[Any] = np.frombuffer(self._data, kind, count, self._at)
        self._at += taken.nbytes
        return taken

    def outcome(self) -> Outcome:
        samples, windows, events, chunks, sent, overs = (int(n) for n in self._take(6, "<u4"))
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
            self._take(sent, "<i2"),
            overs,
        )
