# SPDX-License-Identifier: GPL-3.0-or-later
"""What a benchmark found: a table on stdout, and out/bench/NAME.json with the machine and the commit."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.paths import OUT, ROOT


@dataclass(frozen=True)
class Row:
    """One figure. `ratio` is baseline to value (how many times better) and `ok` whether the aim is met."""

    metric: str
    unit: str
    value: float
    baseline: float | None = None
    ratio: float | None = None
    aim: float | None = None
    ok: bool | None = None


def row(
    metric: str,
    unit: str,
    value: float,
    *,
    baseline: float | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """A row whose ratio and outcome follow from its figures; more is better only with `at_least`."""
    ratio = None
    if baseline is not None and value > 0 and baseline > 0:
        ratio = value / baseline if at_least is not None else baseline / value
    ok = None
    if at_most is not None:
        ok = value <= at_most
    elif at_least is not None:
        ok = value >= at_least
    aim = at_most if at_most is not None else at_least
    return Row(metric, unit, value, baseline, None if ratio is None else round(ratio, 2), aim, ok)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith(("model name", "CPU part"))
        ),
        "unknown",
    )
    return {
        "processor": model,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def commit() -> str:
    """The commit, with a mark when the tree has changes; unknown outside of git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def finish(name: str, rows: Sequence[Row], details: object = None) -> int:
    """Print, write, and say by the exit code whether all aims are met."""
    print(table(rows))
    folder = OUT / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found: dict[str, Any] = {
        "name": name,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rows": [asdict(one) for one in rows],
    }
    if details is not None:
        found["details"] = details
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"\n{path.relative_to(ROOT)}  commit {found['commit']}")
    missed = [one.metric for one in rows if one.ok is False]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def table(rows: Sequence[Row]) -> str:
    lines = [("metric", "value", "unit", "baseline", "ratio", "aim", "")]
    for one in rows:
        mark = {None: "", True: "ok", False: "MISSED"}[one.ok]
        figures = (_figure(one.value), one.unit, _figure(one.baseline), _figure(one.ratio))
        lines.append((one.metric, *figures, _figure(one.aim), mark))
    widths = [max(len(line[column]) for line in lines) for column in range(7)]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    shown = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown.append(cell.ljust(width) if column in (0, 2, 6) else cell.rjust(width))
    return "  ".join(shown).rstrip()


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    if value == int(value):
        return f"{int(value)}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def read_counters(line: str) -> dict[str, Any]:
    """What a program printed as one JSON object."""
    found: dict[str, Any] = json.loads(line)
    return found
