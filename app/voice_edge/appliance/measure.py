# SPDX-License-Identifier: GPL-3.0-or-later
"""Wake-up latency by cyclictest (rt-tests): how late a sleeping thread of the media cores runs."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cpus
from .realtime import Plan

PRIORITY = 80
"""Above the media threads: the platform is measured, not our own work."""


@dataclass(frozen=True, slots=True)
class Wakeups:
    """Lateness in µs over all measured cores."""

    cores: str
    count: int
    worst_us: int
    mean_us: int


def measure(plan: Plan, seconds: int) -> Wakeups | None:
    """None where cyclictest is missing or may not do its work (it needs root)."""
    cores = plan.media or plan.housekeeping
    with tempfile.TemporaryDirectory(prefix="voice-edge-") as scratch:
        result = Path(scratch, "cyclictest.json")
        command = [
            "cyclictest",
            "--quiet",
            "--mlockall",
            f"--priority={PRIORITY}",
            "--interval=1000",
            f"--affinity={cpus.show(cores)}",
            f"--threads={len(cores)}",
            f"--duration={seconds}",
            f"--json={result}",
        ]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=seconds * 3 + 60)
            return read(json.loads(result.read_text()), cpus.show(cores))
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
            return None


def read(tree: dict[str, Any], cores: str) -> Wakeups:
    """From cyclictest's JSON. Raises KeyError, TypeError or ValueError on anything else."""
    found = list(tree["thread"].values())
    count = sum(int(t["cycles"]) for t in found)
    total = sum(int(t["cycles"]) * float(t["avg"]) for t in found)
    if count == 0:
        raise ValueError("cyclictest measured nothing")
    worst = max(int(t["max"]) for t in found)
    return Wakeups(cores, count, worst, round(total / count))
