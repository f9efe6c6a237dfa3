# SPDX-License-Identifier: GPL-3.0-or-later
"""`just parity`: the same recorded calls through the plain Python path and through the core, compared.

    python -m core.reference.parity [--minutes M] [--backend NAME]...

The audio that is judged must be identical to the last bit, the start and the end of speech fall in the same frames
with the same sample positions, the same audio is handed over in the same frames, and no probability differs by more
than 1e-4. Prints counts; exit status 1 when anything differs. Calls are made by core/reference/corpus.py.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from core.reference import core_path, corpus, path
from core.reference.pool import Pool
from core.reference.silero import ROOT
from core.reference.speech import FRAME, WINDOW
from tools import step
from tools.paths import version
from tools.setup import cargo_environment

LIMIT = 1e-4
BATCH = 8  # calls side by side in the core
RUST_OF_STOCK = (1, 92)
FULL_FRAMES, FULL_S = 700_000, 4 * 3600
TOLD = 20  # differences that are printed


@dataclass
class Counts:
    """What was compared, and what differed."""

    calls: int = 0
    frames: int = 0
    samples: int = 0
    windows: int = 0
    seconds: float = 0.0
    events: int = 0
    chunks: int = 0
    sent: int = 0
    overs: int = 0
    clipped: int = 0
    gained: float = 0.0
    by_kind: dict[str, float] = field(default_factory=dict)
    other_samples: int = 0
    other_probabilities: int = 0
    other_events: int = 0
    other_chunks: int = 0
    other_sent: int = 0
    largest: float = 0.0
    backend: str = ""
    told: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Sums up."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, seconds in other.by_kind.items():
            self.by_kind[kind] = self.by_kind.get(kind, 0.0) + seconds
        self.largest = max(self.largest, other.largest)
        self.backend = other.backend
        self.told += other.told

    def same(self, exact: bool) -> bool:
        """Whether all is as it must be; `exact`: probabilities to the last bit."""
        different = self.other_samples + self.other_events + self.other_chunks + self.other_sent
        different += self.other_probabilities if exact else 0
        return self.calls > 0 and different == 0 and self.largest <= LIMIT


_SUMS = (
    *("calls", "frames", "samples", "windows", "seconds", "events", "chunks", "clipped"),
    *("sent", "overs", "gained"),
    *("other_samples", "other_probabilities", "other_events", "other_chunks", "other_sent"),
)


def compare(name: str, wanted: path.Outcome, found: path.Outcome) -> Counts:
    """Differences of one call."""
    counts = Counts(calls=1, windows=len(wanted.probabilities), samples=len(wanted.audio))
    counts.events, counts.chunks = len(wanted.events), len(wanted.chunks)
    counts.other_samples = _unequal(wanted.audio, found.audio)
    counts.other_probabilities = _unequal(
        wanted.probabilities.view(np.uint32), found.probabilities.view(np.uint32)
    )
    both = min(len(wanted.probabilities), len(found.probabilities))
    away = np.abs(wanted.probabilities[:both] - found.probabilities[:both])
    # A probability that is missing, or no number, is as far away as can be.
    whole = len(wanted.probabilities) == len(found.probabilities) and not np.isnan(away).any()
    counts.largest = float(away.max(initial=0.0)) if whole else 1.0
    events = set(wanted.events) ^ set(found.events)
    chunks = set(wanted.chunks) ^ set(found.chunks)
    counts.other_events, counts.other_chunks = len(events), len(chunks)
    counts.sent, counts.overs = len(wanted.sent), wanted.overs
    counts.other_sent = _unequal(wanted.sent, found.sent) + abs(wanted.overs - found.overs)
    if counts.other_sent:
        counts.told.append(f"{name}: sent otherwise; overs {wanted.overs}, core {found.overs}")
    if counts.other_samples:
        counts.told.append(f"{name}: {counts.other_samples} samples differ")
    for event in sorted(events, key=lambda event: event.frame):
        whose = "only the reference has" if event in wanted.events else "only the core has"
        counts.told.append(f"{name}: {whose} {event}")
    if counts.other_chunks and not events:
        counts.told.append(f"{name}: {sorted(chunks, key=lambda c: c.frame)[0]} and more")
    return counts


def _unequal(wanted: NDArray[Any], found: NDArray[Any]) -> int:
    both = min(len(wanted), len(found))
    longer = max(len(wanted), len(found)) - both
    return longer + int(np.count_nonzero(wanted[:both] != found[:both]))


_pool: Pool | None = None


def batch(
    program: Path, backends: Sequence[tuple[str, ...]], recipes: Sequence[corpus.Recipe]
) -> list[Counts]:
    """The calls of some recipes through both paths: what came of each back end."""
    global _pool
    _pool = _pool or Pool(1)
    made = [corpus.make(recipe) for recipe in recipes]
    lines = [call.line for call in made]
    wanted = [path.walk(line, _pool) for line in lines]
    results = []
    for backend in backends:
        name, found = core_path.run(program, backend, lines)
        total = Counts(backend=name)
        for recipe, call, ours, theirs in zip(recipes, made, wanted, found, strict=True):
            counts = compare(recipe.name, ours, theirs)
            counts.frames = counts.samples // FRAME[recipe.rate]
            counts.seconds = counts.samples / recipe.rate
            counts.clipped, counts.backend = call.clipped, name
            counts.gained = counts.seconds * call.line.gain.enabled
            for kind in (f"{recipe.codec} {recipe.rate} Hz", recipe.noise):
                counts.by_kind[kind] = counts.seconds
            assert counts.windows == counts.samples // WINDOW[recipe.rate]
            total.add(counts)
        results.append(total)
    return results


def chosen(minutes: float | None) -> list[corpus.Recipe]:
    """All recipes, or about `minutes` of them, of the packages that tests have anyway."""
    if minutes is None:
        return corpus.recipes((*corpus.NARROW, corpus.WIDE))
    every = corpus.recipes(corpus.SLICE)
    # A call has a minute of speech and its pauses, 75 s at least.
    return every[: max(1, math.ceil(minutes / 1.25))]


def report(counts: Counts, exact: bool) -> Iterator[str]:
    """Lines to print."""
    kinds = ", ".join(f"{kind} {s / 60:.1f} min" for kind, s in sorted(counts.by_kind.items()))
    yield f"reference (numpy, onnxruntime) and core ({counts.backend}):"
    yield f"  {counts.calls} calls, {counts.seconds / 3600:.2f} h, {counts.frames} frames: {kinds}"
    yield (
        f"  audio after gain: {counts.samples} samples ({counts.gained / counts.seconds:.0%} of the time "
        f"with the gain on), {counts.other_samples} differ"
    )
    yield (
        f"  speech probability: {counts.windows} windows, {counts.other_probabilities} differ in any bit"
        f"{' (none may)' if exact else ''}, largest difference {counts.largest:.2e} (up to {LIMIT:g})"
    )
    yield f"  starts and ends of speech: {counts.events}, {counts.other_events} differ in frame or sample"
    yield f"  pieces of audio handed over: {counts.chunks}, {counts.other_chunks} differ"
    yield (
        f"  agent over background, sent: {counts.sent} samples, {counts.other_sent} differ; "
        f"{counts.overs} were clamped and counted"
    )
    yield f"  of the input, {counts.clipped} samples were over full scale before the codec"
    for line in counts.told[:TOLD]:
        yield f"    {line}"


def arguments_of(backend: str) -> tuple[str, ...]:
    """What the core's side is told of a back end; empty is the best of this processor."""
    if backend != "onnxruntime":
        return (backend,) if backend else ()
    return "scalar", str(library())


def _rust() -> tuple[int, ...]:
    found = shutil.which("rustc", path=cargo_environment()["PATH"])
    return version(step.run([found or "rustc", "--version"]))


def library() -> Path:
    """The onnxruntime that Python has, for the core to load."""
    folder = Path(onnxruntime.__file__).parent / "capi"
    found = sorted(folder.glob("libonnxruntime.so*"))
    if not found:
        raise step.Failed(f"{folder} has no libonnxruntime.so; try --backend scalar")
    return found[0]


def build(with_stock: bool, example: str = core_path.EXAMPLE) -> Path:
    """The core's side (or another example), compiled for release; `with_stock`: with onnxruntime."""
    environment = cargo_environment()
    cargo = shutil.which("cargo", path=environment["PATH"])
    if cargo is None:
        raise step.Failed("no cargo on the PATH: `./justw parity` installs one")
    command = [cargo, "build", "--release", "--locked", "-p", "voicecore-engine"]
    if with_stock:
        command += ["--features", "onnxruntime"]
    with step.step("Building the core's side", log="parity", expect="about 1 min", silent_s=3):
        step.run([*command, "--example", example], env=environment)
    target = Path(os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
    return target / "release" / "examples" / example


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="just parity", description=__doc__)
    parser.add_argument("--minutes", type=float, help="only about so much audio")
    parser.add_argument(
        "--backend",
        action="append",
        help="avx512, avx2, neon, scalar or onnxruntime (default: best, and that)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    names = options.backend or [""]
    # That back end's crate asks for a newer Rust than the core.
    if not options.backend and _rust() >= RUST_OF_STOCK:
        names.append("onnxruntime")
    program = build("onnxruntime" in names)
    recipes = chosen(options.minutes)
    backends = [arguments_of(name) for name in names]
    batches = [recipes[k : k + BATCH] for k in range(0, len(recipes), BATCH)]
    totals = [Counts() for _ in backends]
    with ProcessPoolExecutor(options.jobs) as workers:
        results = [workers.submit(batch, program, backends, part) for part in batches]
        for result in results:
            for total, counts in zip(totals, result.result(), strict=True):
                total.add(counts)
    good = True
    for total in totals:
        print("\n".join(report(total, exact=total.backend == "onnxruntime")))
        good &= total.same(exact=total.backend == "onnxruntime")
        if options.minutes is None and (total.frames < FULL_FRAMES or total.seconds < FULL_S):
            print(
                f"  too little: the whole is at least {FULL_S // 3600} h and {FULL_FRAMES} frames"
            )
            good = False
    print(f"{'the same' if good else 'DIFFERENT'}; {time.monotonic() - started:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(step.entry(main))
