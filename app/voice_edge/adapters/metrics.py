# SPDX-License-Identifier: GPL-3.0-or-later
"""A server's own latency and failure figures, as seen from here."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field


def _recent() -> deque[float]:
    return deque(maxlen=1_000)


@dataclass(slots=True)
class Metrics:
    """Times in milliseconds over the last 1,000 requests; counts since start."""

    requests: int = 0
    retries: int = 0
    cancelled: int = 0
    failures: Counter[str] = field(default_factory=Counter)  # by stage
    first_ms: deque[float] = field(default_factory=_recent)
    total_ms: deque[float] = field(default_factory=_recent)

    @staticmethod
    def quantile(values: deque[float], q: float) -> float | None:
        """The nearest-rank quantile, None without any value."""
        if not values:
            return None
        ordered = sorted(values)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    def summary(self) -> str:
        """One log line's worth."""
        parts = [f"requests={self.requests}", f"retries={self.retries}"]
        parts.append(f"cancelled={self.cancelled}")
        parts += [f"failed_{stage}={n}" for stage, n in sorted(self.failures.items())]
        for name, values in (("first", self.first_ms), ("total", self.total_ms)):
            for q in (0.5, 0.95):
                value = self.quantile(values, q)
                if value is not None:
                    parts.append(f"{name}_p{int(q * 100)}_ms={value:.0f}")
        return " ".join(parts)
