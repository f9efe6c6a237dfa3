# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends keys, whichever way the call has for them. What is sent may be a PIN: no text here holds it."""

from __future__ import annotations

import asyncio

from voicecore import _core
from voicecore._errors import CallGone, SignallingError

_KEYS = frozenset("0123456789*#ABCDabcd")
_MOST = 64


class DtmfSender:
    """The keys of one call on their way out."""

    def __init__(self, native: _core.Engine, call_id: int) -> None:
        self._native = native
        self._call_id = call_id
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._turn = asyncio.Lock()

    async def send(self, digits: str, duration_ms: int, gap_ms: int) -> None:
        """Returns when all are sent; see `Call.send_dtmf`."""
        if not digits or len(digits) > _MOST or not _KEYS.issuperset(digits):
            raise ValueError(f"digits: give 1 to {_MOST} of 0-9 * # A-D, and nothing else")
        if not 40 <= duration_ms <= 8000:
            raise ValueError(f"duration_ms {duration_ms} is out of range; use 40 to 8000")
        if not 40 <= gap_ms <= 8000:
            raise ValueError(f"gap_ms {gap_ms} is out of range; use 40 to 8000")
        async with self._turn:
            if self._native.dtmf_way(self._call_id) == "rtp":
                request = self._native.send_dtmf(self._call_id, digits, duration_ms, gap_ms)
                if not await self._outcome(request):
                    raise SignallingError(
                        f"call {self._call_id}: the keys were not all sent: hold, a new session "
                        "description or the end of the call came between",
                        code="dtmf.interrupted",
                    )
                return
            for digit in digits:
                await self._info(digit, duration_ms)
                await asyncio.sleep((duration_ms + gap_ms) / 1000)

    async def _info(self, digit: str, duration_ms: int) -> None:
        status = await self._outcome(self._native.send_info(self._call_id, digit, duration_ms))
        if status // 100 != 2:
            raise SignallingError(
                f"call {self._call_id}: the peer answered an INFO with a key by {status}",
                code="dtmf.refused",
                status=status,
            )

    async def _outcome(self, request: int) -> int:
        future = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        try:
            return int(await future)
        finally:
            del self._waiting[request]

    def on_event(self, event: _core.DtmfSent | _core.InfoDone) -> None:
        """An outcome."""
        future = self._waiting.get(event.request)
        if future is not None and not future.done():
            future.set_result(
                int(event.sent) if isinstance(event, _core.DtmfSent) else event.status
            )

    def on_ended(self) -> None:
        """The call is over."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(CallGone(f"call {self._call_id} has ended"))
