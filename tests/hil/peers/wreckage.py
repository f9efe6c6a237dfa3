# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process may leave behind: children, bound ports, half-written recordings."""

from __future__ import annotations

import os
import wave
from pathlib import Path

from .ports import is_free
from .process import survivors, tree, udp_ports_of


class Watch:
    """Remembers every process of a tree and every UDP port they had, as often as it is asked to look."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.processes: dict[int, int] = {}
        self.ports: set[int] = set()

    def look(self) -> None:
        for pid, began in tree(self._pid).items():
            self.processes[pid] = began
            self.ports |= udp_ports_of(pid)
        # A child whose parent has just died is no longer in the tree, but still ours.
        for pid in self.processes:
            self.ports |= udp_ports_of(pid)

    def left(self) -> list[str]:
        """Processes that still run and ports that are still bound, in words."""
        found = [f"process {line}" for line in survivors(self.processes)]
        return found + [f"UDP port {port} still bound" for port in self.ports if not is_free(port)]


def broken_recordings(directory: Path) -> list[str]:
    """Unfinished files and WAVs whose header does not say what the file holds."""
    found = []
    for path in sorted(directory.rglob("*")):
        if path.suffix == ".part" or path.name.startswith(".run-"):
            found.append(f"{path.name} was left")
        if path.suffix == ".wav":
            found += wav_faults(path)
    return found


def wav_faults(path: Path) -> list[str]:
    """Empty when the file opens and its RIFF and data lengths are those of the file."""
    size = path.stat().st_size
    try:
        with wave.open(str(path), "rb") as source:
            frames, width = source.getnframes(), source.getnchannels() * source.getsampwidth()
            read = len(source.readframes(frames))
    except (wave.Error, EOFError, OSError) as error:
        return [f"{path.name}: {error!r} ({size} bytes)"]
    faults = []
    if read != frames * width:
        faults.append(f"{path.name}: {frames} frames promised, {read // width} there")
    with path.open("rb") as raw:
        riff = int.from_bytes(os.pread(raw.fileno(), 4, 4), "little")
    if riff + 8 != size:
        faults.append(f"{path.name}: RIFF length {riff} + 8 is not the file's {size}")
    return faults
