# SPDX-License-Identifier: GPL-3.0-or-later
"""Retransmission over UDP (RFC 3261 §17), without I/O: ``now`` goes in, datagrams come out."""

from __future__ import annotations

from dataclasses import dataclass

T1 = 0.5  # seconds: estimate of the round trip (RFC 3261 §17.1.1.1)
T2 = 4.0  # longest interval of non-INVITE requests
LIFETIME = 64 * T1  # timers B, F, H


@dataclass
class Retransmitter:
    """One datagram repeated at T1, 2·T1, 4·T1 … (at most every ``longest`` seconds) for 64·T1.

    ``timeout`` is raised once; the owner calls ``stop`` when the answer has come.
    """

    datagram: bytes
    to: tuple[str, int]
    started: float
    longest: float
    sent: int = 1
    running: bool = True
    timed_out: bool = False

    def __post_init__(self) -> None:
        self._interval = T1
        self._next = self.started + T1

    def stop(self) -> None:
        self.running = False

    def slow_down(self) -> None:
        """A provisional answer came to a non-INVITE request: repeat every T2 only (§17.1.2.2)."""
        self._interval = T2

    def next_timer(self) -> float | None:
        """When ``advance`` has something to do, None if never."""
        return min(self._next, self.started + LIFETIME) if self.running else None

    def advance(self, now: float) -> bool:
        """Whether the datagram is due again. Sets ``timed_out`` when 64·T1 are over."""
        if not self.running:
            return False
        if now >= self.started + LIFETIME:
            self.running = False
            self.timed_out = True
            return False
        if now < self._next:
            return False
        self._interval = min(2 * self._interval, self.longest)
        self._next = now + self._interval
        self.sent += 1
        return True
