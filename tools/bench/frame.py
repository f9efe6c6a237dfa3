# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench frame`: what a frame of a call costs on one core, by the core and by the reference, in turns.

The reference is core/reference: numpy, and the stock model in onnxruntime. Calls come from a recording, the same to
both (tools/bench/recorded.py). A figure is the median of the rounds. With --live they are real calls, to an agent on
voicecore and to one on pjsua2 with the same reference in its callbacks (tools/bench/live.py).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.bench import live, programs, report
from tools.bench.report import Row
from tools.bench.sides import MEASURED
from tools.paths import ROOT, venv_program
from tools.step import Failed

CORE, REFERENCE = "core", "reference"
AIMS = {"process": 10.0, "main": 40.0, "vad": 8.0}
"""How many times less than the reference."""
KINDS = {
    "process": "cpu of the whole process",
    "main": "interpreter's lock of the main thread",
    "vad": "voice activity",
    "rest": "everything else",
}
# Mathematical libraries keep to one thread on both sides.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Run = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="just bench frame", description=__doc__)
    parser.add_argument("--calls", metavar="N,N,…", help="even numbers; 100,200, live 50")
    parser.add_argument("--seconds", type=float, default=20, help="length of each call")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side")
    parser.add_argument("--live", action="store_true", help="real calls, to pjsua2 and to the core")
    options = parser.parse_args(arguments)
    if options.live:
        few = [int(count) for count in (options.calls or "50").split(",")]
        return live.run(few, options.seconds, options.rounds)
    counts = [int(count) for count in (options.calls or "100,200").split(",")]
    pcm = programs.speech()
    runs: list[Run] = []
    for turn in range(options.rounds):
        for calls in counts:
            for side in (CORE, REFERENCE) if turn % 2 == 0 else (REFERENCE, CORE):
                runs.append(one(side, calls, pcm, options.seconds))
                _tell(turn, runs[-1])
    rows = [line for calls in counts for line in rows_of(runs, calls)]
    return report.finish("frame", rows, runs)


def one(side: str, calls: int, pcm: Path, seconds: float) -> Run:
    """One run in a process of its own on one core; times in µs a frame."""
    words = [venv_program("python"), "-m", "tools.bench.recorded", side, "--calls", str(calls)]
    done = subprocess.run(
        [*words, "--pcm", str(pcm), "--seconds", str(seconds)],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        # Nothing but a system call between fork and exec.
        preexec_fn=lambda: os.sched_setaffinity(0, {MEASURED}),
    )
    if done.returncode != 0:
        raise Failed(f"the {side}'s run of {calls} calls ended with {done.returncode}; see above")
    found = report.read_counters(done.stdout)
    us = {kind: found[f"{kind}_ns"] / 1000 / found["frames"] for kind in ("process", "main", "vad")}
    us["rest"] = us["process"] - us["main"] - us["vad"]
    return {"side": side, "calls": calls, **us, "starts": found["starts"]}


def rows_of(runs: Sequence[Run], calls: int) -> Iterator[Row]:
    def middle(side: str, kind: str) -> float:
        mine: list[float] = [
            run[kind] for run in runs if (run["side"], run["calls"]) == (side, calls)
        ]
        return statistics.median(mine)

    for kind, name in KINDS.items():
        value, baseline = middle(CORE, kind), middle(REFERENCE, kind)
        aim = AIMS.get(kind)
        ratio = baseline / value if value > 0 else None
        yield Row(
            f"{name}, a frame, {calls} calls",
            "us",
            round(value, 3),
            round(baseline, 2),
            None if ratio is None else round(ratio, 1),
            aim,
            None if aim is None or ratio is None else ratio >= aim,
        )


def _tell(turn: int, run: Run) -> None:
    times = "  ".join(f"{kind} {run[kind]:.2f}" for kind in KINDS)
    print(
        f"round {turn + 1}  {run['side']:10} {run['calls']:4} calls  us a frame: {times}  "
        f"({run['starts']} starts of speech)",
        flush=True,
    )
