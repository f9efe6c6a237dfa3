# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench srtp`: core/engine/benches/srtp.rs, and beside it libsrtp as PJSIP links it, on the same packets."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tools import pjsip
from tools.bench import programs, report
from tools.bench.report import Row
from tools.paths import OUT
from tools.step import Failed


def main(options: Sequence[str]) -> int:
    theirs = _libsrtp()
    rows: list[Row] = []
    for one in programs.run_bench("srtp", options):
        beside = theirs.get(one.metric)
        if beside is None:
            rows.append(one)
        else:
            rows.append(report.row(one.metric, one.unit, one.value, baseline=beside[0]))
    for metric, (_, allocations) in theirs.items():
        rows.append(report.row(f"libsrtp, {metric}, allocations", "a packet", allocations))
    return report.finish("srtp", rows)


def ways() -> list[Row]:
    """What a frame costs from one call's application to another's, encrypted beside plain."""
    return programs.run_bench("srtp", ["--ways"])


def _libsrtp() -> dict[str, tuple[float, float]]:
    """Microseconds and allocations for a packet, by suite and way."""
    prefix = pjsip.build()
    source = programs.BENCHES / "baseline/srtp.c"
    program = OUT / "bench/libsrtp"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-Wall", f"-I{prefix / 'include'}", str(source), "-o", str(program)]
    command += [f"-L{prefix / 'lib'}", "-lsrtp2", "-lcrypto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{source} does not compile:\n{done.stderr[-2000:]}")
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"libsrtp did not do what the benchmark asks: {ran.stderr}")
    found = {}
    for line in ran.stdout.splitlines():
        suite, way, microseconds, allocations = line.split()
        found[f"{suite} {way}"] = (float(microseconds), float(allocations))
    return found
