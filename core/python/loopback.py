# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of calls share."""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from voicecore import Call, CallEvent, Engine

T = TypeVar("T")

StartEngine = Callable[..., Coroutine[Any, Any, Engine]]

# Longest a single step may take on a loaded machine. Nothing is expected to come near it.
PATIENCE_S = 10.0


async def soon(work: Awaitable[T]) -> T:
    """``work``, or a failure when it hangs."""
    return await asyncio.wait_for(work, PATIENCE_S)


def sine(hz: float, seconds: float, rate: int = 8000, amplitude: int = 9000) -> bytes:
    """int16 little-endian mono."""
    count = int(rate * seconds)
    samples = (int(amplitude * math.sin(2 * math.pi * hz * i / rate)) for i in range(count))
    return b"".join(struct.pack("<h", s) for s in samples)


async def collect(call: Call) -> list[CallEvent]:
    """All events of a call until its end."""
    return [event async for event in call.events()]


async def next_of(call: Call, kind: type[T]) -> T:
    """The next event of one kind; others are thrown away."""
    async for event in call.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the call ended before {kind.__name__}")


async def audio_flows(*calls: Call) -> None:
    """Waits until each of these calls has got RTP from its far end."""
    async with asyncio.timeout(PATIENCE_S):
        while any(call.stats().rx_packets < 10 for call in calls):  # noqa: ASYNC110  counters tell nobody
            await asyncio.sleep(0.02)


@dataclass
class Pair:
    """Two engines of one process that call each other."""

    caller: Engine
    callee: Engine

    def uri(self, user: str = "100") -> str:
        """Where the callee answers."""
        host, port = self.callee.sip_address
        return f"sip:{user}@[{host}]:{port}" if ":" in host else f"sip:{user}@{host}:{port}"

    async def next_call(self) -> Call:
        """The next call that comes in at the callee."""
        return await soon(anext(aiter(self.callee.incoming())))

    async def connect(self, user: str = "100") -> tuple[Call, Call]:
        """A call that is up: the caller's side and the callee's."""
        dialling = asyncio.create_task(self.caller.dial(self.uri(user)))
        incoming = await self.next_call()
        await soon(incoming.answer())
        return await soon(dialling), incoming
