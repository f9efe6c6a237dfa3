# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be done inside of a call: early media, hold, new offers, transfer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voicecore import _core
from voicecore._address import Address
from voicecore._checks import codecs as checked_codecs
from voicecore._checks import patience
from voicecore._errors import CallGone, SignallingError

if TYPE_CHECKING:
    from voicecore._call import Call


@dataclass(frozen=True, slots=True)
class TransferRequested:
    """The far end asks us to call somebody else (REFER, RFC 3515); ``transfer_requests="allow"``.

    Answer it with `Engine.follow_transfer` or `Call.refuse_transfer`. When the call ends before
    either, it is refused.
    """

    target: Address
    """Whom to call. Personal data; it does not print itself."""


@dataclass(frozen=True, slots=True)
class CallReplaced:
    """The call has another far end now: an INVITE with Replaces took it over (RFC 3891)."""

    caller: Address
    """Who took over (From). `Call.caller` is this from now on."""
    source: str
    """``address:port`` its INVITE came from."""


class InDialog:
    """The part of `Call` that changes a call while it lasts."""

    __slots__ = ("_early", "_offering", "_transfer_accepted", "_transfer_target", "_waiting")

    _native: _core.Engine
    _id: int

    def __init__(self) -> None:
        self._early = False
        self._offering = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._transfer_accepted = False
        self._transfer_target: Address | None = None

    async def early_media(self) -> None:
        """Sends 183 with SDP to a caller and returns when audio runs, before the call is answered.

        The 183 is reliable when the caller can (PRACK, RFC 3262), and then audio runs once the
        caller has acknowledged it. Else audio runs at once, towards an address that only the
        caller's offer names: use it with peers you trust.

        Raises:
            SignallingError: the call is not waiting for an answer, was dialled, or came without an
                offer from a caller that knows no PRACK (``sip.not_ready``).
            CallGone: the caller left.
        """
        if self._early:
            self._raise_if_ended()
            if self._is_answered():
                raise SignallingError(
                    f"call {self._id} is not in a state for early media: it is answered",
                    code="sip.not_ready",
                )
            return
        await self._outcome("early_media", lambda: self._native.early_media(self._id))

    async def hold(self, *, inactive: bool = False) -> None:
        """Puts the far end on hold; what is played goes on being heard there (music on hold).

        Args:
            inactive: no audio in either direction instead.

        Raises:
            SignallingError: the far end refused (``status``); all stays as it was.
            CallGone: the call has ended.
        """
        await self._offer("inactive" if inactive else "sendonly", None)

    async def resume(self) -> None:
        """Takes the far end off hold. Raises as `hold`."""
        await self._offer("sendrecv", None)

    async def renegotiate(self, *, codecs: Sequence[str] | None = None) -> None:
        """Offers the session anew, from the address that leads to the far end by now.

        Args:
            codecs: only these, of those of the engine; None: as before.

        Raises:
            ConfigError: an empty list, or a codec that is not known.
            SignallingError: the far end refused (``status``), or answered with what was not offered
                (488): all stays as it was, or the call ends where the codec of before is not in that
                answer either.
            CallGone: the call has ended.
        """
        await self._offer(None, checked_codecs(codecs))

    async def transfer(
        self, target: str | Address, *, timeout_s: float = 60.0, hangup: bool = True
    ) -> int:
        """Has the far end call ``target`` instead (blind transfer, REFER); `TransferProgress` tells how
        it goes.

        Args:
            target: a SIP URI.
            timeout_s: longest wait for the end of the transfer.
            hangup: end this call once the transfer has succeeded.

        Returns:
            Status of the far end's new call: 200, or 202 when it accepted the transfer and then told
            nothing more, or hung up.

        Raises:
            SignallingError: refused or failed (``sip.transfer_failed`` with ``status``), or not
                ended in time (``sip.transfer_timeout``). The call is still up, unless `ended`.
            CallGone: the call ended before the far end accepted.
        """
        uri = target.uri if isinstance(target, Address) else target
        return await self._transfer(
            lambda: self._native.transfer(self._id, uri), timeout_s, (self,) if hangup else ()
        )

    async def transfer_to(
        self, other: Call, *, timeout_s: float = 60.0, hangup: bool = True
    ) -> int:
        """Connects the far ends of this call and of ``other`` with each other (attended transfer).

        This call's far end is sent a REFER with the dialog of ``other``, which it replaces. With
        ``hangup`` both calls end here once that has succeeded. Returns and raises as `transfer`.
        """
        return await self._transfer(
            lambda: self._native.transfer_to(self._id, other.id),
            timeout_s,
            (self, other) if hangup else (),
        )

    def refuse_transfer(self, status: int = 603) -> None:
        """Does not follow a `TransferRequested`; the far end is told ``status`` (400 to 699)."""
        if not 400 <= status <= 699:
            raise ValueError(f"status {status} is not a refusal; use 400 to 699, such as 603")
        self._native.refuse_transfer(self._id, status)

    # What follows is called by Call and Engine.

    def hangup(self) -> None:
        raise NotImplementedError

    def _raise_if_ended(self) -> None:
        raise NotImplementedError

    def _is_answered(self) -> bool:
        raise NotImplementedError

    async def _offer(self, direction: str | None, names: list[str] | None) -> None:
        # One offer at a time (RFC 3264 section 4); the next one goes out when it is answered.
        async with self._offering:
            status = await self._outcome(
                "offer", lambda: self._native.offer(self._id, direction, names)
            )
        if status >= 300:
            raise SignallingError(
                f"call {self._id}: the far end refused the new offer with {status}",
                code="sip.offer_refused",
                status=status,
            )

    async def _transfer(
        self, begin: Callable[[], None], timeout_s: float, ends: Sequence[InDialog]
    ) -> int:
        patience(timeout_s)
        self._transfer_accepted = False
        try:
            async with asyncio.timeout(timeout_s):
                status = await self._outcome("transfer", begin)
        except TimeoutError:
            raise SignallingError(
                f"call {self._id}: the transfer has not ended within {timeout_s:g} s",
                code="sip.transfer_timeout",
                status=408,
            ) from None
        if status >= 300:
            raise SignallingError(
                f"call {self._id}: the transfer failed with {status}",
                code="sip.transfer_failed",
                status=status,
            )
        for call in ends:
            call.hangup()
        return status

    async def _outcome(self, operation: str, begin: Callable[[], None]) -> int:
        self._raise_if_ended()
        if operation in self._waiting:
            raise SignallingError(
                f"call {self._id}: {operation} is under way; await it first", code="sip.not_ready"
            )
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[operation] = future
        try:
            begin()
            return await future
        finally:
            if self._waiting.get(operation) is future:
                del self._waiting[operation]

    def _settle(self, operation: str, outcome: int | Exception) -> None:
        future = self._waiting.pop(operation, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            future.exception()
        else:
            future.set_result(outcome)

    def _on_done(self, event: _core.OperationDone) -> None:
        if event.code is None:
            self._settle(event.operation, event.status)
            return
        message = event.message or event.operation
        self._settle(
            event.operation, SignallingError(message, code=event.code, status=event.status)
        )

    def _on_transfer(self, event: _core.TransferProgress) -> None:
        if event.last:
            self._settle("transfer", event.status)
        else:
            self._transfer_accepted = True

    def _settle_all(self, error: CallGone) -> None:
        if self._transfer_accepted:
            # Many peers hang up as soon as they have accepted: what comes of it is theirs.
            self._settle("transfer", 202)
        for operation in list(self._waiting):
            self._settle(operation, error)
