# SPDX-License-Identifier: GPL-3.0-or-later
"""Named deadlines of a state machine that has no clock of its own."""

from __future__ import annotations

from enum import StrEnum


class Timer(StrEnum):
    CALL = "call"  # longest call
    IDLE = "idle"  # nobody speaks
    SEGMENT = "segment"  # one segment is as long as the recogniser takes
    BARGE = "barge"  # caller speech long enough to stop the agent
    TRANSCRIPT = "transcript"  # the recogniser never reported
    ANSWER = "answer"  # no sound of the answer
    MENU = "menu"  # no key was pressed
    SETTLE = "settle"  # the core never reported a clear
    PATIENCE = "patience"  # the caller has heard nothing for long enough
    PLAYOUT = "playout"  # the core never reported the end of a turn


class Timers:
    """At most one deadline a name, in nanoseconds."""

    def __init__(self) -> None:
        self._at: dict[Timer, int] = {}

    def arm(self, timer: Timer, at_ns: int) -> None:
        self._at[timer] = at_ns

    def disarm(self, *timers: Timer) -> None:
        for timer in timers:
            self._at.pop(timer, None)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._at

    def clear(self) -> None:
        self._at.clear()

    def next(self) -> int | None:
        return min(self._at.values(), default=None)

    def pop_due(self, now_ns: int) -> Timer | None:
        """Take out the earliest deadline that has passed."""
        timer = min(self._at, key=self._at.__getitem__, default=None)
        if timer is None or self._at[timer] > now_ns:
            return None
        del self._at[timer]
        return timer
