# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench signal`: the signal work of a tick (core/engine/benches/signal.rs), and a batch of events to Python."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.bench import programs, report
from tools.bench.report import Row, row
from tools.bench.sides import GENERATOR, MEASURED, PRIORITY, Program, may_real_time
from tools.paths import venv_program
from tools.step import Failed

BATCH_CALLS = 204
"""Almost all of them tell something within 20 ms: their callers read prompts without long pauses."""
PUBLISHED_BATCH_US = 44.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="just bench signal", description=__doc__)
    parser.add_argument("calls", nargs="*", help="numbers of calls; 200 and 1000")
    options = parser.parse_args(arguments)
    pcm = programs.speech()
    rows = programs.run_bench("signal", [str(pcm), *options.calls])
    return report.finish("signal", [*rows, *_batch(pcm)])


def listener(calls: int, pcm: Path) -> list[str]:
    words = [venv_program("python"), "-m", "tools.bench.listener", "--calls", str(calls)]
    words += ["--pcm", str(pcm)]
    return [*words, "--priority", str(PRIORITY)] if may_real_time() else words


def _batch(pcm: Path) -> Iterator[Row]:
    generator = programs.cargo_bench("transport")
    with Program(listener(BATCH_CALLS, pcm), MEASURED) as agent:
        port = agent.line().split()[1]
        words = ["generate", "--target", f"127.0.0.1:{port}", "--calls", str(BATCH_CALLS)]
        words += ["--pcm", str(pcm), "--rate", "100"]
        real_time = PRIORITY if may_real_time() else None
        with Program([str(generator), *words], GENERATOR, real_time) as calls:
            if int(calls.line().split()[1]) != BATCH_CALLS:
                raise Failed("not all calls were answered; see above")
            time.sleep(3)
            found = agent.ask("gather 8")
    if found["batch_200_us"] is None:
        raise Failed(f"no batch of about 200 events came; the median was {found['events']:.0f}")
    print(f"{found['batches']} batches of 180 to 220 events of {BATCH_CALLS} calls")
    took = round(found["batch_200_us"], 1)
    yield row("batch of 200 events to Python, median", "us", took, at_most=PUBLISHED_BATCH_US)
