# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges when speech is taken to have begun: false starts in noise, missed and late onsets of recordings.

    python -m core.reference.onsets [--calls N] [--hours H]

The probability at which one window alone starts speech (`SURE` in core/engine/src/signal/speech.rs) is varied; above 1
it is never enough. Speech is the corpus of `just parity`, noise that of its recipes without anybody speaking, at
levels from -60 to -30 dBov. The probabilities are the core's own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from core.reference import core_path, corpus, parity
from core.reference.path import Line, Outcome
from core.reference.speech import FRAME, WINDOW, Decider, Settings
from tools import step

SURE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.1)
NOISE_DB = (-60, -50, -40, -30)
LATE_MS = 200
BLOCK_MS = 10
AUDIBLE_DB = 30  # below the loudest block of a recording, and it has begun


@dataclass
class Tally:
    """Of one value of `SURE`."""

    onsets: int = 0
    missed: int = 0
    delays_ms: list[float] = field(default_factory=list)
    early: int = 0
    """Starts in pauses of calls with speech."""
    false: dict[str, int] = field(default_factory=dict)


def starts(outcome: Outcome, rate: int, sure: float) -> list[tuple[int, int, int]]:
    """Stretches of speech: first sample, sample at which that was decided, and last sample."""
    decider = Decider(rate, Settings(sure=sure))
    found: list[tuple[int, int, int]] = []
    begun = (0, 0)
    for k, probability in enumerate(outcome.probabilities):
        sample = decider.window(k * WINDOW[rate], probability)
        if sample is None:
            continue
        # The frame in which the window became full: that is when the core decides.
        frames = -((k + 1) * WINDOW[rate] // -FRAME[rate])
        if decider.talking:
            begun = (sample, frames * FRAME[rate])
        else:
            found.append((*begun, sample))
    if decider.talking:
        found.append((*begun, len(outcome.audio)))
    return found


def onset(samples: NDArray[np.int16], rate: int) -> int:
    """First sample of the first block that is audible in a recording."""
    size = rate * BLOCK_MS // 1000
    blocks = samples[: len(samples) // size * size].astype(np.float64).reshape(-1, size)
    power = (blocks**2).mean(axis=1)
    return int(np.argmax(power >= power.max() * 10 ** (-AUDIBLE_DB / 10))) * size


def judge_speech(
    tally: Tally, made: corpus.Made, recipe: corpus.Recipe, outcome: Outcome, sure: float
) -> None:
    """A call with speech."""
    rate = recipe.rate
    found = starts(outcome, rate, sure)
    for (first, last), path in zip(made.spoken, recipe.clips, strict=True):
        sound = corpus.read(path)
        assert sound is not None
        begin = first + onset(sound[1], rate)
        if any(start < begin <= end for start, _, end in found):
            continue  # the one before had not ended: nothing to be found out here
        tally.onsets += 1
        mine = [decided for start, decided, _ in found if begin - rate // 10 <= start < last]
        if not mine:
            tally.missed += 1
            continue
        tally.delays_ms.append((mine[0] - begin) * 1000 / rate)
    margin = rate // 10
    spoken = [(first - margin, last + margin) for first, last in made.spoken]
    tally.early += sum(not any(a <= start < b for a, b in spoken) for start, _, _ in found)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--hours", type=float, default=1.0, help="of each kind of noise")
    options = parser.parse_args(arguments)
    program = parity.build(False)
    recipes = corpus.recipes((*corpus.NARROW, corpus.WIDE))[: options.calls]
    tallies = {sure: Tally() for sure in SURE}
    for recipe in recipes:
        made = corpus.make(recipe)
        (outcome,) = core_path.run(program, (), [plain(made.line)])[1]
        for sure, tally in tallies.items():
            judge_speech(tally, made, recipe, outcome, sure)
    seconds = options.hours * 3600 / len(NOISE_DB)
    for kind in corpus.NOISES[1:]:
        quiet = corpus.with_noise(replace(recipes[0], codec="PCMA", rate=8000), kind)
        lines = [corpus.only_noise(quiet, seconds, level).line for level in NOISE_DB]
        for outcome in core_path.run(program, (), lines)[1]:
            for sure, tally in tallies.items():
                tally.false[kind] = tally.false.get(kind, 0) + len(starts(outcome, 8000, sure))
    report(tallies, options.hours)
    return 0


def plain(line: Line) -> Line:
    """Without gain, and without the agent's side: neither matters here."""
    return Line(line.rate, line.codec, line.payload)


def report(tallies: dict[float, Tally], hours: float) -> None:
    """A table."""
    print(
        f"{hours:g} h of each kind of noise, levels {NOISE_DB} dBov; late: more than {LATE_MS} ms"
    )
    kinds = " ".join(f"{kind:>7}" for kind in corpus.NOISES[1:])
    print(f"sure  onsets missed late  median   p95  in pauses  false starts an hour: {kinds}")
    for sure, tally in tallies.items():
        delays = np.array(tally.delays_ms or [0.0])
        late = int((delays > LATE_MS).sum())
        middle, most = np.percentile(delays, (50, 95))
        false = " ".join(f"{tally.false[kind] / hours:7.1f}" for kind in corpus.NOISES[1:])
        print(
            f"{sure:4}  {tally.onsets:6} {tally.missed:6} {late:4} {middle:4.0f} ms {most:4.0f} ms"
            f"  {tally.early:9}                        {false}"
        )


if __name__ == "__main__":
    step.entry(main)
