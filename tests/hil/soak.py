# SPDX-License-Identifier: GPL-3.0-or-later
"""`just soak`: thousands of short calls, then hours of a hundred at once, in one process; what is held afterwards?

The core runs under Python, in a process of its own, as the agent has it; the benchmark's generator places the calls and
sends recorded speech. First a wave that warms everything up; what is held when its last transaction has ended is the
starting level. It has to be reached again after the short calls and after the long ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.drivers.engines import Engines
from tools.bench import programs, report
from tools.bench.report import Row, row
from tools.bench.sides import PRIORITY, Program, may_real_time
from tools.step import entry

ENGINE = "soak"
# An answered INVITE's transaction stays 32 s (RFC 6026), that of a BYE as long (timer J).
TRANSACTIONS_S = 45.0
MEMORY_AIM_KIB = 8192
SHORT_RATE = 120


@dataclass(frozen=True)
class Level:
    """What the core's process holds."""

    at: str
    minutes: float
    memory_kib: int
    descriptors: int
    threads: int
    transactions: int
    dialogs: int
    calls: int
    lost_or_late: int
    latest_tick_us: int


class Soak:
    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.core = Engines(directory)
        config: dict[str, Any] = {"media_cores": options.cores}
        if may_real_time():
            config["media_priority"] = PRIORITY
        if options.record:
            recordings = directory / "recordings"
            recordings.mkdir()
            config["recording_dir"] = str(recordings)
        host, port = self.core.start(ENGINE, max_calls=options.at_once + 50, **config)
        self.target = f"{host}:{port}"
        self.tool = programs.cargo_bench("transport")
        self.began = time.monotonic()
        self.levels: list[Level] = []

    def level(self, at: str) -> Level:
        held = self.core.ask("census")
        stats = self.core.ask("stats", name=ENGINE)
        level = Level(
            at,
            round((time.monotonic() - self.began) / 60, 1),
            int(held["memory_kib"]),
            int(held["descriptors"]),
            int(held["threads"]),
            int(stats["sip_transactions"]),
            int(stats["sip_dialogs"]),
            int(stats["calls_active"]),
            int(stats["rx_lost"] + stats["rx_late"]),
            int(stats["max_lateness_us"]),
        )
        self.levels.append(level)
        print(level, flush=True)
        return level

    def rest(self, at: str) -> Level:
        """When nothing is under way any more, or should not be."""
        end = time.monotonic() + TRANSACTIONS_S
        while time.monotonic() < end:
            stats = self.core.ask("stats", name=ENGINE)
            if not (stats["sip_transactions"] or stats["sip_dialogs"] or stats["calls_active"]):
                break
            time.sleep(1)
        time.sleep(1)
        return self.level(at)

    def short(self, calls: int) -> dict[str, Any]:
        words = ["setup", "--target", self.target, "--calls", str(calls), "--at-once", "20"]
        done = subprocess.run(
            [str(self.tool), *words, "--rate", str(SHORT_RATE)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        print(f"short calls: {found}", flush=True)
        return found

    def long(self, calls: int, minutes: float, each_min: float) -> dict[str, Any]:
        words = [str(self.tool), "generate", "--target", self.target, "--calls", str(calls)]
        words += ["--pcm", str(programs.speech()), "--rate", "50"]
        # The core's priority: one that waited for a processor sends what it owes at once, more than a ring holds.
        with Program(words, None, PRIORITY if may_real_time() else None) as generator:
            said = generator.line().split()
            assert int(said[1]) == calls, f"{said[1]} of {calls} calls were answered"
            end = time.monotonic() + minutes * 60
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, each_min * 60))
                self.level(f"{calls} calls")
            return generator.ask("stop")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="just soak", description=__doc__)
    parser.add_argument("--short", type=int, default=10_000, help="short calls")
    parser.add_argument("--at-once", type=int, default=100, help="long calls at once")
    parser.add_argument("--minutes", type=float, default=120.0, help="for how long")
    parser.add_argument("--each", type=float, default=5.0, help="minutes between two looks")
    parser.add_argument("--record", action="store_true", help="record the calls")
    parser.add_argument("--cores", type=_cores, default=[], help="media cores, such as 1,2")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        soak = Soak(Path(directory), options)
        try:
            rows = _run(soak, options)
        finally:
            status = soak.core.stop()
    if status != 0:
        print(f"the core's process ended with {status}")
    found = report.finish("soak", rows, [vars(level) for level in soak.levels])
    return found or status


def _cores(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _run(soak: Soak, options: argparse.Namespace) -> list[Row]:
    soak.level("start")
    # As many as are ever under way at once, in both kinds.
    soak.short(min(options.short, SHORT_RATE * 35))
    # Until its rings have been all the way round.
    soak.long(options.at_once, min(options.minutes, 1.5), 1.5)
    begin = soak.rest("warm")
    short = soak.short(options.short)
    after_short = soak.rest("after short calls")
    long = soak.long(options.at_once, options.minutes, options.each)
    end = soak.rest("after long calls")
    stats = soak.core.ask("stats", name=ENGINE)
    lost = int(stats["rx_lost"] + stats["rx_late"])

    def grown(name: str, of: Callable[[Level], int], unit: str, at_most: float) -> list[Row]:
        return [
            row(f"{name}, after {what} by the start", unit, of(level) - of(begin), at_most=at_most)
            for what, level in (("short calls", after_short), ("long calls", end))
        ]

    return [
        row("short calls", "calls", short["calls"], at_least=options.short),
        row("long calls at once", "calls", options.at_once),
        row("for minutes", "min", options.minutes),
        row("frames sent to the core", "frames", long["sent"]),
        row("frames heard of the core", "frames", long["received"]),
        row("frames lost on the way out, by sequence", "frames", long["lost"], at_most=0),
        row("frames lost or late on the way in, by the core", "frames", lost, at_most=0),
        row("longest gap between a call's frames", "ms", long["gap_ms"]),
        row("ticks given up", "", int(stats["skipped_ticks"]), at_most=0),
        row("events dropped", "", int(stats["events_dropped"]), at_most=0),
        row("memory at the start", "KiB", begin.memory_kib),
        *grown("memory", lambda level: level.memory_kib, "KiB", MEMORY_AIM_KIB),
        *grown("descriptors", lambda level: level.descriptors, "", 0),
        *grown("threads", lambda level: level.threads, "", 0),
        *grown("transactions", lambda level: level.transactions, "", 0),
        *grown("dialogs", lambda level: level.dialogs, "", 0),
        row("calls still counted", "calls", end.calls, at_most=0),
    ]


if __name__ == "__main__":
    sys.exit(entry(main))
