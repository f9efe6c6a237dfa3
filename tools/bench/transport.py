# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench transport`: the core and, in turns with it, pjsua-lib with its conference bridge, the same calls to both.

Each run starts the measured program on core 0 and the generator of SIP and RTP (recorded speech, G.711 A-law, 20 ms)
on core 1. A figure is the median of the rounds. With one number of calls and a minute or more it is the long run, of
the core alone, which asks whether any frame was lost.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tools.bench import programs, report, srtp
from tools.bench.report import Row, row
from tools.bench.sides import MEASURED, PRIORITY, Program, Run, Side, call_rate, may_real_time
from tools.bench.sides import measure as run_once
from tools.step import Failed

CORE, DEAF, BRIDGE = "core", "core without VAD", "pjsua-lib with bridge"
SECURE = "core with SRTP"
CPU_AIM_US = 11.0  # a call and frame at 400 calls
FLAT_AIM = 1.1  # the same at the most calls, by that at 400
HANDOVER_AIM_NS = 120.0
MEMORY_AIM_KIB = 80.0
LONG_S = 60.0


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if (os.cpu_count() or 1) < 2:
        raise Failed("the benchmark needs two cores: one is measured, one generates the calls")
    tool, pcm = programs.cargo_bench("transport"), programs.speech()
    sides = {side.name: side for side in _sides(tool, pcm, may_real_time())}
    if len(options.calls) == 1 and options.seconds >= LONG_S:
        return _long(tool, pcm, sides[CORE], options)
    wanted = [CORE, DEAF, SECURE]
    if not options.no_baseline:
        wanted.append(BRIDGE)
    runs: list[Run] = []
    for turn in range(options.rounds):
        for calls in options.calls:
            for name in wanted if turn % 2 == 0 else reversed(wanted):
                found = run_once(
                    sides[name],
                    tool,
                    pcm,
                    calls,
                    options.seconds,
                    room=max(options.calls),
                    rate=options.rate,
                )
                runs.append(found)
                print(
                    f"round {turn + 1}  {name:22} {calls:5} calls  {found.cpu_us:6.2f} us  "
                    f"{found.lost} lost of {found.heard}  gap {found.gap_ms:.0f} ms",
                    flush=True,
                )
    rows = [*_cpu_rows(runs), *_delivery_rows(runs)]
    lean = [sides[CORE], *([] if options.no_baseline else [sides[BRIDGE]])]
    rows += _memory_rows(tool, pcm, lean, options)
    rows += _handover_rows(tool, pcm, options.calls)
    rows += _setup_rows(tool, sides, None if options.no_baseline else BRIDGE)
    rows += srtp.ways()
    return report.finish("transport", rows, [asdict(run) for run in runs])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    def counts(text: str) -> list[int]:
        return sorted(int(part) for part in text.split(","))

    parser = argparse.ArgumentParser(prog="just bench transport", description=__doc__)
    parser.add_argument("--calls", type=counts, default=[100, 400, 1000], metavar="N,N,…")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a window")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rate", type=int, default=200, help="calls placed a second")
    parser.add_argument("--no-baseline", action="store_true", help="only the core")
    return parser.parse_args(arguments)


def _sides(tool: Path, pcm: Path, real_time: bool) -> list[Side]:
    def core(calls: int, *more: str) -> list[str]:
        words = [str(tool), "core", "--calls", str(calls), "--pcm", str(pcm)]
        words += ["--cores", str(MEASURED), *more]
        return [*words, "--priority", str(PRIORITY)] if real_time else words

    def bridge(calls: int) -> list[str]:
        return [str(programs.baseline()), str(calls), str(pcm)]

    return [
        Side(CORE, core, tells=True),
        Side(SECURE, lambda calls: core(calls, "--srtp", "1"), tells=True, srtp=True),
        Side(DEAF, lambda calls: core(calls, "--vad", "0"), tells=True),
        Side(BRIDGE, bridge, tells=False, whole=real_time),
    ]


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None


def _of(runs: Sequence[Run], side: str, calls: int) -> list[Run]:
    return [run for run in runs if (run.side, run.calls) == (side, calls)]


def _cpu(runs: Sequence[Run], side: str, calls: int) -> float | None:
    return _median(run.cpu_us for run in _of(runs, side, calls))


def _cpu_rows(runs: Sequence[Run]) -> Iterable[Row]:
    counts = sorted({run.calls for run in runs})
    for side, what in ((CORE, "cpu"), (DEAF, "cpu without vad"), (SECURE, "cpu with srtp")):
        for calls in counts:
            value = _cpu(runs, side, calls)
            if value is not None:
                yield row(
                    f"{what} a call and frame, {calls} calls",
                    "us",
                    round(value, 2),
                    # The baseline has no SRTP here.
                    baseline=None if side == SECURE else _rounded(_cpu(runs, BRIDGE, calls)),
                    at_most=CPU_AIM_US if calls == 400 and side != SECURE else None,
                )
    most, at_400 = _cpu(runs, CORE, counts[-1]), _cpu(runs, CORE, 400)
    if most and at_400 and counts[-1] > 400:
        metric = f"cpu at {counts[-1]} calls by that at 400"
        yield row(metric, "", round(most / at_400, 3), at_most=FLAT_AIM)


def _delivery_rows(runs: Sequence[Run]) -> Iterable[Row]:
    for calls in sorted({run.calls for run in runs}):
        mine = [run for run in runs if run.calls == calls and run.side != BRIDGE]
        theirs = _of(runs, BRIDGE, calls)
        if not mine:
            continue
        yield row(
            f"frames lost by the core, {calls} calls, all runs",
            "frames",
            sum(map(_lost, mine)),
            baseline=sum(run.lost for run in theirs) if theirs else None,
            at_most=0,
        )
        longest = _median(run.gap_ms for run in theirs)
        yield row(
            f"longest gap between a call's frames, {calls} calls",
            "ms",
            max(run.gap_ms for run in mine),
            baseline=longest,
        )
        for name in ("p50", "p99", "p999", "max"):
            late = _median(run.own[f"late_{name}_us"] for run in mine)
            assert late is not None
            yield row(f"lateness of a tick's parts {name}, {calls} calls", "us", round(late, 1))


def _lost(run: Run) -> int:
    """Frames that the core sent and nobody got, or that were sent to it and it did not take, or took too late."""
    own = run.own
    untaken = run.whole["sent"] - own["end_rx_packets"]
    return int(run.whole["lost"] + max(untaken, own["end_rx_lost"]) + own["end_tx_errors"])


def _memory_rows(
    tool: Path, pcm: Path, sides: Sequence[Side], options: argparse.Namespace
) -> Iterable[Row]:
    """When the transactions of the set-up have ended, which stay for 32 s after an answer (RFC 6026)."""
    few, many = options.calls[0], options.calls[-1]
    if few == many:
        return
    slopes = []
    for side in sides:
        held = [
            run_once(side, tool, pcm, n, 2, room=many, rate=options.rate, settle_s=40).pss_kib
            for n in (few, many)
        ]
        print(f"{side.name}: {held[0]} KiB with {few} calls, {held[1]} KiB with {many}", flush=True)
        slopes.append(round((held[1] - held[0]) / (many - few), 1))
    yield row(
        f"memory a call, {few} to {many} calls",
        "KiB",
        slopes[0],
        baseline=slopes[1] if len(slopes) > 1 else None,
        at_most=MEMORY_AIM_KIB,
    )


def _handover_rows(tool: Path, pcm: Path, counts: Sequence[int]) -> Iterable[Row]:
    for calls in counts:
        words = [str(tool), "handover", "--calls", str(calls), "--pcm", str(pcm)]
        with Program(words, MEASURED, PRIORITY if may_real_time() else None) as program:
            found = report.read_counters(program.line())
        for name in ("p50", "p99"):
            yield row(
                f"hand-over of a frame {name}, {calls} calls",
                "ns",
                found[f"{name}_ns"],
                at_most=HANDOVER_AIM_NS if name == "p99" else None,
            )
            metric = f"datagram to jitter buffer {name}, {calls} calls"
            yield row(metric, "ns", found[f"whole_{name}_ns"])


def _setup_rows(tool: Path, sides: dict[str, Side], baseline: str | None) -> Iterable[Row]:
    rates: dict[str, list[tuple[float, float]]] = {}
    for _ in range(3):
        for name in (DEAF, *([baseline] if baseline else [])):
            rates.setdefault(name, []).append(call_rate(sides[name], tool, 1500, 32))
    middle = {
        name: tuple(statistics.median(column) for column in zip(*found, strict=True))
        for name, found in rates.items()
    }
    other = middle.get(baseline) if baseline else None
    yield row(
        "calls set up and ended a second",
        "1/s",
        round(middle[DEAF][0]),
        baseline=round(other[0]) if other else None,
        at_least=0,
    )
    yield row(
        "cpu of a call's set-up and end",
        "us",
        round(middle[DEAF][1]),
        baseline=round(other[1]) if other else None,
    )


def _long(tool: Path, pcm: Path, side: Side, options: argparse.Namespace) -> int:
    (calls,) = options.calls
    run = run_once(side, tool, pcm, calls, options.seconds, room=calls, rate=options.rate)
    own, whole = run.own, run.whole
    due = int(calls * options.seconds * 50)
    rows = [
        row(f"cpu a call and frame, {calls} calls", "us", round(run.cpu_us, 2), at_most=CPU_AIM_US),
        row("frames sent to the core, whole run", "frames", whole["sent"]),
        row("of those taken by it", "frames", own["end_rx_packets"], at_least=whole["sent"]),
        row("missing or too late by its own count", "frames", own["end_rx_lost"] + own["end_rx_late"], at_most=0),
        row("frames the core sent, whole run", "frames", own["end_tx_packets"]),
        row("of those heard", "frames", whole["received"], at_least=own["end_tx_packets"]),
        row("frames heard within the window, by those due", "", round(run.heard / due, 5), at_least=0.9999),
        row("lost by sequence number", "frames", whole["lost"], at_most=0),
        row("ticks given up", "", own["end_skipped"], at_most=0),
        row("longest gap between a call's frames", "ms", run.gap_ms),
        row("memory of the process", "KiB", run.pss_kib),
    ]  # fmt: skip
    rows += [
        row(f"lateness of a tick's parts {name}", "us", own[f"late_{name}_us"])
        for name in ("p50", "p99", "p999", "max")
    ]
    return report.finish("transport-long", rows, asdict(run))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
