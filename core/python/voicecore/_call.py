# SPDX-License-Identifier: GPL-3.0-or-later
"""One call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

from voicecore import _core
from voicecore._address import Address
from voicecore._checks import U32, U64, whole
from voicecore._core import (
    Audio,
    Background,
    CallEnded,
    CallHeld,
    CallProgress,
    CallResumed,
    CallStats,
    Dtmf,
    EarlyMedia,
    MediaTimeout,
    PlayoutFinished,
    PlayoutStarted,
    SpeechEnded,
    SpeechStarted,
    TransferProgress,
)
from voicecore._dialog import CallReplaced, InDialog, TransferRequested
from voicecore._dtmf import DtmfSender
from voicecore._errors import CallGone, SignallingError
from voicecore._stream import Stream

CallEvent: TypeAlias = (
    SpeechStarted
    | SpeechEnded
    | Audio
    | PlayoutStarted
    | PlayoutFinished
    | MediaTimeout
    | CallProgress
    | EarlyMedia
    | CallHeld
    | CallResumed
    | TransferProgress
    | TransferRequested
    | CallReplaced
    | Dtmf
    | CallEnded
)

# Events kept for a consumer that is behind: a minute of 20 ms audio. Past it audio is dropped and
# counted; the other events are few and always kept.
_QUEUED_EVENTS = 3000


class Call(InDialog):
    """A call in or out, from its INVITE to its end. Use it from the engine's event loop only."""

    __slots__ = (
        "__weakref__",
        "_account",
        "_answered",
        "_caller",
        "_dialled",
        "_direction",
        "_dtmf",
        "_ended",
        "_events",
        "_events_dropped",
        "_id",
        "_native",
        "_rate",
        "_recording",
        "_sip_call_id",
        "_source",
    )

    def __init__(
        self,
        native: _core.Engine,
        call_id: int,
        *,
        direction: Literal["in", "out"],
        caller: Address,
        dialled: Address,
        sip_call_id: str = "",
        source: str = "",
        account: str | None = None,
    ) -> None:
        """Made by `Engine`, not by applications."""
        super().__init__()
        self._native = native
        self._id = call_id
        self._direction: Literal["in", "out"] = direction
        self._caller = caller
        self._dialled = dialled
        self._sip_call_id = sip_call_id
        self._source = source
        self._account = account
        self._recording: str | None = None
        self._rate = 8000
        self._events: Stream[CallEvent] = Stream(_QUEUED_EVENTS)
        self._events_dropped = 0
        self._answered: asyncio.Future[None] | None = None
        self._ended: CallEnded | None = None
        self._dtmf = DtmfSender(native, call_id)

    @property
    def id(self) -> int:
        """Number of the call, unique in this process."""
        return self._id

    @property
    def sip_call_id(self) -> str:
        """The Call-ID header; empty for a dialled call until the peer's first answer."""
        return self._sip_call_id

    @property
    def direction(self) -> Literal["in", "out"]:
        """``"in"`` or ``"out"``."""
        return self._direction

    @property
    def source(self) -> str:
        """``address:port`` the INVITE came from; empty for a dialled call."""
        return self._source

    @property
    def account(self) -> str | None:
        """The user of `GuardConfig.users` whose password the caller knew; None without a challenge. Personal data."""
        return self._account

    @property
    def caller(self) -> Address:
        """Who called (From)."""
        return self._caller

    @property
    def dialled(self) -> Address:
        """Who was called (To)."""
        return self._dialled

    @property
    def recording(self) -> str | None:
        """Path of the WAV once answered, when ``recording_dir`` is set.

        Stereo, 16 bit, at the call's `rate`: left the far end, right this engine. Complete after
        `CallEnded`; what a full or blocked disk did not take is silence in it, and in the log.
        """
        return self._recording

    @property
    def rate(self) -> int:
        """Sampling rate of the call in Hz: of its audio events, its recording and what
        `PlayoutFinished` counts.

        16000 when the first codec agreed on is G.722, else 8000; it stays for the call's life,
        whatever a later offer changes. 8000 until a codec is agreed on (answer, early media).
        """
        with contextlib.suppress(CallGone):  # its end may be on the way, not fetched yet
            self._rate = self.stats().rate or self._rate
        return self._rate

    @property
    def ended(self) -> CallEnded | None:
        """How the call ended, or None while it lasts."""
        return self._ended

    @property
    def events_dropped(self) -> int:
        """Audio events lost because `events` was not read for a minute."""
        return self._events_dropped

    def ring(self) -> None:
        """Sends 180 Ringing. Nothing happens when the call was answered or has ended."""
        self._native.ring(self._id)

    async def answer(self) -> None:
        """Answers with 200 and returns when the caller has confirmed and audio runs.

        Raises:
            CallGone: the caller left first.
            SignallingError: the stack could not answer; the call is ended.
        """
        if self._direction == "out":
            raise SignallingError(f"call {self._id} was dialled: the peer answers it")
        if self._answered is None:
            self._raise_if_ended()
            self._native.answer(self._id)
        await self._wait_answered()

    async def answered(self) -> None:
        """Returns when a call made by `Engine.place` is answered and confirmed.

        Raises:
            SignallingError: with the peer's ``status``.
            CallGone: the call had ended before this was asked.
        """
        self._raise_if_ended()
        await self._wait_answered()

    def reject(self, status: int = 486, *, retry_after: int | None = None) -> None:
        """Refuses with ``status`` (400 to 699); ``retry_after`` is a Retry-After header in s."""
        if not 400 <= status <= 699:
            raise ValueError(f"status {status} is not a refusal; use 400 to 699, such as 486")
        if retry_after is not None and not 0 <= retry_after <= 86_400:
            raise ValueError(f"retry_after {retry_after} is out of range; use 0 to 86400 seconds")
        if self._ended is None:
            self._native.reject(self._id, status, retry_after)

    def hangup(self) -> None:
        """Ends the call by BYE, CANCEL or refusal, as its state needs. May be called again."""
        if self._ended is None:
            self._native.hangup(self._id)

    def play(self, pcm: bytes | bytearray | memoryview, rate: int, turn_id: int) -> None:
        """Appends to what is played to the far end.

        Args:
            pcm: int16 little-endian mono; an odd last byte is carried over to the turn's next chunk.
            rate: sampling rate of ``pcm`` in Hz; resampled to the line.
            turn_id: names the stretch of speech for `clear`, `PlayoutStarted`, `PlayoutFinished`.

        Raises:
            ConfigError: ``rate`` or ``turn_id`` is out of range (``turn_id`` has 64 bits, without sign).
            PlayoutFull: more than ``playout_max_s`` would wait; nothing was taken.
            CallGone: the call has ended, or has no audio yet.
        """
        self._raise_if_ended()
        whole("rate", rate, 1, U32)
        whole("turn_id", turn_id, 0, U64)
        self._native.play(self._id, pcm, rate, turn_id)

    def finish(self, turn_id: int) -> None:
        """No more audio of this turn: `PlayoutFinished` follows when it was heard."""
        whole("turn_id", turn_id, 0, U64)
        if self._ended is None:
            self._native.finish(self._id, turn_id)

    def clear(self, turn_id: int | None = None) -> None:
        """Stops a turn, or all, within one 20 ms tick.

        `PlayoutFinished` with ``interrupted`` follows for each turn cut off. Audio that is later
        played under a cleared turn is ignored.
        """
        if turn_id is not None:
            whole("turn_id", turn_id, 0, U64)
        if self._ended is None:
            self._native.clear(self._id, turn_id)

    def background(self, background: Background | None) -> None:
        """What is heard behind the agent from now on; None is silence.

        The one before fades out first, in 100 ms, and the new one fades in, in 400 ms. While the
        agent talks it is lower, by ``EngineConfig.duck_db``. A call begins with ``EngineConfig.background``.

        Raises:
            CallGone: the call has ended.
        """
        self._raise_if_ended()
        self._native.set_background(self._id, background)

    def listen(
        self,
        *,
        delivery: Literal["speech", "frames"] | None = None,
        chunk_ms: int | None = None,
        echo_guard: bool | None = None,
        noise_suppression: bool | None = None,
    ) -> None:
        """Hears the far end in another way than `EngineConfig` says, from the next tick on.

        May be asked for before `answer`, then it holds from the first frame; None leaves what is.

        Args:
            delivery: "speech" or "frames", as ``EngineConfig.delivery``.
            chunk_ms: as ``EngineConfig.chunk_ms``.
            echo_guard: as ``EngineConfig.echo_guard``.
            noise_suppression: as ``EngineConfig.noise_suppression``.

        Raises:
            ConfigError: a value that cannot be.
            CallGone: the call has ended, or has no audio yet.
        """
        self._raise_if_ended()
        self._native.listen(self._id, delivery, chunk_ms, echo_guard, noise_suppression)

    async def send_dtmf(self, digits: str, *, duration_ms: int = 160, gap_ms: int = 80) -> None:
        """Sends keys and returns when all are sent.

        By telephone-event (RFC 4733) when the peer agreed on it, else by SIP INFO
        (``application/dtmf-relay``); ``EngineConfig.dtmf`` can rule out either. While keys go out by
        telephone-event what is played waits.

        Args:
            digits: up to 64 of ``0``-``9``, ``*``, ``#``, ``A``-``D``.
            duration_ms: how long each key is down, 40 to 8000; rounded up to 20 ms.
            gap_ms: pause after each key, 40 to 8000; rounded up to 20 ms.

        Raises:
            CallGone: the call has ended.
            SignallingError: ``dtmf.not_negotiated``, ``dtmf.interrupted``, or ``dtmf.refused`` with
                the peer's ``status``; the keys before were sent.
        """
        self._raise_if_ended()
        await self._dtmf.send(digits, duration_ms, gap_ms)

    def events(self) -> AsyncIterator[CallEvent]:
        """What happens in the call, for one consumer; ends after `CallEnded`."""
        return self._events

    def stats(self) -> CallStats:
        """Counters of the call's media, also after its end."""
        if self._ended is not None:
            return self._ended.stats
        return self._native.call_stats(self._id)

    def __repr__(self) -> str:
        return f"<Call {self._id} {self._direction} caller={self._caller}>"

    # What follows is called by Engine.

    async def _wait_answered(self) -> None:
        if self._answered is None:
            self._answered = asyncio.get_running_loop().create_future()
        # Several tasks may wait; the cancellation of one must not cancel the others' future.
        await asyncio.shield(self._answered)

    def _is_answered(self) -> bool:
        return self._answered is not None and self._answered.done()

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise CallGone(f"call {self._id} has ended ({self._ended.status})")

    def _hear(self, audio: Audio) -> bool:
        """False if it was dropped, for nobody takes the events."""
        taken = self._events.put(audio)
        self._events_dropped += not taken
        return taken

    def _put(self, event: CallEvent) -> None:
        self._events.put(event, always=True)

    def _on_progress(self, event: _core.CallProgress) -> None:
        self._sip_call_id = self._sip_call_id or event.sip_call_id
        self._put(event)

    def _on_early(self, event: EarlyMedia) -> None:
        self._recording = event.recording
        self._early = True
        self._settle("early_media", 183)
        self._put(event)

    def _on_transfer_asked(self, target: Address) -> None:
        self._transfer_target = target
        self._put(TransferRequested(target))

    def _on_replaced(self, event: _core.PeerReplaced) -> None:
        self._caller = Address(event.caller)
        self._sip_call_id = event.sip_call_id
        self._source = event.source
        self._put(CallReplaced(self._caller, event.source))

    def _on_confirmed(self, event: _core.CallConfirmed) -> None:
        self._recording = event.recording
        if self._answered is None:
            self._answered = asyncio.get_running_loop().create_future()
        if not self._answered.done():
            self._answered.set_result(None)

    def _on_failed(self, event: _core.CommandFailed) -> None:
        self._fail(SignallingError(event.message, code=event.code, status=event.status))

    def _on_ended(self, event: CallEnded) -> None:
        if self._ended is not None:
            return
        self._ended = event
        self._dtmf.on_ended()
        self._put(event)
        self._events.close()
        self._settle_all(CallGone(f"call {self._id} has ended ({event.status} {event.reason})"))
        if self._direction == "out":
            self._fail(
                SignallingError(
                    f"call {self._id} was not answered: {event.status} {event.reason}",
                    code="sip.call_failed",
                    status=event.status,
                )
            )
        else:
            self._fail(CallGone(f"call {self._id} has ended ({event.status} {event.reason})"))

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
            # Retrieved here so that an answer() that was cancelled leaves no warning behind.
            self._answered.exception()
