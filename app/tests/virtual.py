# SPDX-License-Identifier: GPL-3.0-or-later
"""An event loop whose clock jumps to the next timer as soon as nothing else can happen.

Sockets work: loopback data that is under way gets a moment of real time before the clock jumps. So
a server that stalls for 30 s costs a test milliseconds, and no test depends on how fast it runs.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_SETTLE_S = 0.003  # real time for loopback data and threads to show up
_STUCK_S = 10.0  # real time without any timer or event: the test hangs


class _JumpingSelector(selectors.DefaultSelector):
    loop: VirtualLoop
    settle_s = _SETTLE_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        ready = super().select(_STUCK_S if timeout is None else self.settle_s)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing will ever happen: the test waits for ever")
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, *, sockets: bool = True) -> None:
        self.now = 1_000.0
        selector = _JumpingSelector()
        if not sockets:
            selector.settle_s = 0.0
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now

    def clock_ns(self) -> int:
        """The same clock as nanoseconds, for ``CallSession``."""
        return round(self.now * 1e9)


def run(work: Coroutine[Any, Any, T], *, sockets: bool = True) -> T:
    """Run a coroutine on virtual time; without ``sockets`` the clock jumps at once."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(sockets=sockets)) as runner:
        return runner.run(work)
