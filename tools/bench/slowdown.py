# SPDX-License-Identifier: GPL-3.0-or-later
"""How much slower a program has become, from paired runs: the median ratio with its confidence interval."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 4000
CONFIDENCE = 0.95
LIMIT = 1.10
"""A change may not be slower by more than this, by the lower bound."""


@dataclass(frozen=True)
class Slowdown:
    """Time of the change by that of the base: 1.0 is as fast, above is slower."""

    ratio: float
    lower: float
    upper: float

    @property
    def too_slow(self) -> bool:
        return self.lower > LIMIT

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.lower:.3f}, {self.upper:.3f}]"


def slowdown(pairs: Sequence[tuple[float, float]]) -> Slowdown:
    """From (base, change) of each pair of neighbouring runs.

    A pair's runs share what the machine was doing, so the ratio is taken within it; the median over pairs is not moved
    by single disturbed ones. The interval is the percentile bootstrap of that median (Efron and Tibshirani, An
    Introduction to the Bootstrap, chapter 13), always with the same seed.
    """
    ratios = [change / base for base, change in pairs]
    draw = random.Random(1)  # noqa: S311 - statistics, not secrets
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Slowdown(statistics.median(ratios), medians[cut], medians[-1 - cut])
