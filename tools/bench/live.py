# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench frame --live`: the same real calls to an agent on voicecore and to one on pjsua2, in turns."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tools import pjsua2, system
from tools.bench import programs, report
from tools.bench.report import Row, row
from tools.bench.sides import Run, Side, measure
from tools.bench.signal_work import listener
from tools.paths import venv_program

CORE, OPPONENT = "voicecore", "pjsua2"
RATE = 50
"""Calls placed a second: more would make the opponent late before it is measured."""


def run(counts: Sequence[int], seconds: float, rounds: int) -> int:
    system.ensure(["bench-live"])
    pcm, generator = programs.speech(), programs.cargo_bench("transport")
    sides = _sides(pcm, pjsua2.build())
    runs: list[Run] = []
    for turn in range(rounds):
        for calls in counts:
            for side in sides if turn % 2 == 0 else reversed(sides):
                found = measure(side, generator, pcm, calls, seconds, room=calls, rate=RATE)
                runs.append(found)
                print(
                    f"round {turn + 1}  {side.name:10} {calls:4} calls  {found.cpu_us:7.2f} us a "
                    f"frame, of it Python {_python_us(found):.2f}  {found.lost} lost of "
                    f"{found.heard}",
                    flush=True,
                )
    rows = [line for calls in counts for line in _rows(runs, calls)]
    return report.finish("frame-live", rows, [asdict(one) for one in runs])


def _sides(pcm: Path, module: Path) -> list[Side]:
    def opponent(calls: int) -> list[str]:
        words = ["env", f"PYTHONPATH={module}", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"]
        words += [venv_program("python"), "-m", "tools.bench.opponent"]
        return [*words, "--calls", str(calls), "--pcm", str(pcm)]

    return [
        Side(CORE, lambda calls: listener(calls, pcm), tells=True),
        Side(OPPONENT, opponent, tells=True),
    ]


def _python_us(run: Run) -> float:
    """With the interpreter's lock, a frame: the main thread, and callbacks in the bridge's thread."""
    own = run.own
    names = [name for name in ("main_ns", "callback_ns") if name in own]
    return float(sum(own[name] - own[f"begin_{name}"] for name in names)) / 1000 / run.heard


def _rows(runs: Sequence[Run], calls: int) -> Iterator[Row]:
    mine, theirs = (
        [one for one in runs if (one.side, one.calls) == (side, calls)] for side in (CORE, OPPONENT)
    )
    for name, figure in (
        ("cpu of the whole process", lambda one: one.cpu_us),
        ("Python", _python_us),
    ):
        yield row(
            f"live: {name}, a call and frame, {calls} calls",
            "us",
            round(statistics.median(map(figure, mine)), 2),
            baseline=round(statistics.median(map(figure, theirs)), 2),
        )
    yield row(
        f"live: frames lost, {calls} calls, all runs",
        "frames",
        sum(one.lost for one in mine),
        baseline=sum(one.lost for one in theirs),
    )
    yield row(
        f"live: starts of speech told, {calls} calls, a run",
        "",
        statistics.median(one.own["starts"] for one in mine),
        baseline=statistics.median(one.own["starts"] for one in theirs),
    )
