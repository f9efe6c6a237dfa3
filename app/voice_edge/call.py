# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives one call: events of the line into the machine, its actions out to the servers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from . import timeline
from .adapters import ServerError
from .logs import CallLogger, describe
from .machine import CallMachine, Policy, State
from .machine import events as ev
from .machine.turns import COUNT_RATE
from .phrases import PhraseCache
from .ports import CallLike, LanguageModel, Recogniser, Voice, is_error, line_event
from .sentences import SentenceSplitter

_log = logging.getLogger(__name__)

_PIECE = 32_768  # bytes of a cached phrase handed over at once
_FULL_RETRY_S = 0.25  # the play-out queue is full: it drains at the speed of speech
_TRANSFER_S = 30.0  # for the human to answer
_HANGUP_WAIT_S = 5.0  # for CallEnded after our hang-up


@dataclass(frozen=True, slots=True)
class Servers:
    """What a call talks to; shared by all calls."""

    llm: LanguageModel
    tts: Voice
    stt: Recogniser
    phrases: PhraseCache


class CallSession:
    """``run()`` answers the call and returns when it is over; one task tree."""

    def __init__(
        self,
        call: CallLike,
        servers: Servers,
        policy: Policy,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        fallen: bool = False,
    ) -> None:
        self._call = call
        self._servers = servers
        self._clock = clock
        self.machine = CallMachine(policy, fallen=fallen)
        self._log = CallLogger(_log, call.id)
        self._pending: deque[ev.Event] = deque()
        self._draining = False
        self._timer: asyncio.TimerHandle | None = None
        self._guard: asyncio.Timeout | None = None
        self._group: asyncio.TaskGroup | None = None
        self._jobs: dict[int, list[asyncio.Task[None]]] = {}  # by agent turn
        self._voices: dict[int, asyncio.Queue[ev.Say | None]] = {}
        self._recognising: set[asyncio.Task[None]] = set()
        self._capture: tuple[int, bytearray] | None = None
        self._rate = COUNT_RATE  # of the line, known once answered
        self._meta: dict[str, Any] = {}

    def farewell(self) -> None:
        """Say goodbye and hang up, whatever is being said. Without effect on a call that is not answered yet."""
        if self._group is not None:
            self._feed(ev.Farewell())

    async def run(self) -> None:
        try:
            self._call.ring()
            await self._call.answer()
        except Exception as error:
            if not (is_error(error, "CallGone") or is_error(error, "SignallingError")):
                raise
            self._log.info("gone before it was answered (%s)", describe(error))
            return
        self._rate = self._call.rate
        self._log.info("answered, from %s, %d Hz", self._call.source, self._rate)
        self._meta = {
            "id": self._call.id,
            "sip_call_id": self._call.sip_call_id,
            "recording": self._call.recording,
            "answered_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "answered_ns": self._clock(),
        }
        try:
            await self._converse()
        finally:
            # However it ends, by the caller, by us or by the service's stop: one clean account.
            try:
                self._feed(ev.Shutdown())
                self._call.hangup()
            finally:
                await self._write_timeline()

    async def _converse(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None) as self._guard:
                        self._feed(ev.Answered())
                        async for event in self._call.events():
                            self._line_event(event)
            finally:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                for job in [*self._recognising, *(j for jobs in self._jobs.values() for j in jobs)]:
                    job.cancel()
                self._group = None

    # --- events ---

    def _line_event(self, event: Any) -> None:
        if type(event).__name__ == "Audio":
            if self._capture is not None:
                self._capture[1].extend(event.pcm)
            return
        if type(event).__name__ == "CallEnded":
            self._ended(event)
        translated = line_event(event, self._rate)
        if translated is not None:
            self._feed(translated)

    def _ended(self, event: Any) -> None:
        figures = timeline.stats(event.stats)
        self._meta |= {
            "ended_ns": self._clock(),
            "status": event.status,
            "reason": event.reason,
            "by_remote": event.by_remote,
            "stats": figures,
        }
        self._log.info(
            "ended status=%s by_remote=%s rx_packets=%s rx_lost=%s tx_packets=%s mos_rx=%s mos_tx=%s",
            event.status,
            event.by_remote,
            figures.get("rx_packets"),
            figures.get("rx_lost"),
            figures.get("tx_packets"),
            _score(figures.get("mos_rx")),
            _score(figures.get("mos_tx")),
        )

    def _feed(self, event: ev.Event) -> None:
        """Through the machine, in order: an action may cause the next event at once."""
        self._pending.append(event)
        if self._draining:
            return
        self._draining = True
        try:
            while self._pending:
                before = self.machine.state
                for action in self.machine.handle(self._pending.popleft(), self._clock()):
                    self._act(action)
                if self.machine.state is not before:
                    self._log.debug("%s -> %s", before, self.machine.state)
        finally:
            self._draining = False
        self._arm_timer()

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.machine.next_deadline()
        if deadline is not None and self._group is not None:
            delay = max(0, deadline - self._clock()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay, self._feed, ev.Tick())

    # --- actions ---

    def _act(self, action: ev.Action) -> None:
        try:
            self._perform(action)
        except Exception as error:
            if not is_error(error, "CallGone"):
                raise
            # The caller hung up; CallEnded is on its way.

    def _perform(self, action: ev.Action) -> None:
        match action:
            case ev.StartCapture(segment_id=segment):
                self._capture = (segment, bytearray())
            case ev.DropCapture(segment_id=segment):
                self._take_capture(segment)
            case ev.Transcribe(segment_id=segment):
                self._recognise(segment)
            case ev.Request(turn_id=turn, messages=messages):
                self._start(turn, self._reply(turn, messages))
            case ev.Say(turn_id=turn):
                self._voice(turn).put_nowait(action)
            case ev.Fill(turn_id=turn, text=text):
                self._fill(turn, text)
            case ev.EndReply(turn_id=turn):
                self._voice(turn).put_nowait(None)
            case ev.CancelReply(turn_id=turn):
                for job in self._jobs.pop(turn, ()):
                    job.cancel()
                self._voices.pop(turn, None)
            case ev.FinishPlayout(turn_id=turn):
                self._call.finish(turn)
            case ev.ClearPlayout(turn_id=turn):
                self._call.clear(turn)
            case ev.Transfer(target=target):
                self._task(self._transfer(target))
            case ev.Hangup(cause=cause):
                self._log.info("hanging up: %s", cause)
                self._call.hangup()
                if self._guard is not None:
                    self._guard.reschedule(asyncio.get_running_loop().time() + _HANGUP_WAIT_S)

    def _take_capture(self, segment: int) -> bytes:
        if self._capture is None or self._capture[0] != segment:
            return b""
        audio, self._capture = bytes(self._capture[1]), None
        return audio

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        if self._group is None:  # the call is over
            work.close()
            return None
        return self._group.create_task(work)

    def _start(self, turn: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._task(work)
        if task is not None:
            self._jobs.setdefault(turn, []).append(task)

    def _failure(self, what: str, error: Exception) -> None:
        """A job failed. Its turn is apologised for; the call goes on."""
        if isinstance(error, ServerError):
            self._log.warning("%s failed: %s", what, error)
        else:
            self._log.error("%s failed, a fault of ours", what, exc_info=error)

    async def _transfer(self, target: str) -> None:
        try:
            await self._call.transfer(target, timeout_s=_TRANSFER_S)
        except Exception as error:
            if not (is_error(error, "VoicecoreError") or is_error(error, "CallGone")):
                raise
            self._log.warning("transfer to a human failed (%s)", describe(error))
            self._feed(ev.Transferred(done=False))
        else:
            self._log.info("transferred to a human")
            self._feed(ev.Transferred(done=True))

    # --- speech to text ---

    def _recognise(self, segment: int) -> None:
        task = self._task(self._transcribe(segment, self._take_capture(segment)))
        if task is not None:
            self._recognising.add(task)
            task.add_done_callback(self._recognising.discard)

    async def _transcribe(self, segment: int, pcm: bytes) -> None:
        try:
            text = await self._servers.stt.transcribe(pcm, self._rate) if pcm else ""
        except Exception as error:
            self._failure("recognition", error)
            self._feed(ev.TranscriptFailed(segment))
        else:
            self._feed(ev.Transcript(segment, text))

    # --- language model ---

    async def _reply(self, turn: int, messages: tuple[ev.Message, ...]) -> None:
        splitter = SentenceSplitter()
        first = True
        try:
            async with contextlib.aclosing(self._servers.llm.reply(messages)) as pieces:
                async for piece in pieces:
                    if first:
                        first = False
                        self._feed(ev.FirstToken(turn))
                    if isinstance(piece, ev.ToolCall):
                        self._feed(ev.ReplyTool(turn, piece))
                        continue
                    for sentence in splitter.feed(piece):
                        self._feed(ev.ReplySentence(turn, sentence))
        except Exception as error:
            self._failure("reply", error)
            self._feed(ev.ReplyFailed(turn))
            return
        for sentence in splitter.flush():
            self._feed(ev.ReplySentence(turn, sentence))
        self._feed(ev.ReplyDone(turn))

    # --- text to speech ---

    def _voice(self, turn: int) -> asyncio.Queue[ev.Say | None]:
        queue = self._voices.get(turn)
        if queue is None:
            queue = self._voices[turn] = asyncio.Queue()
            self._start(turn, self._speak_all(turn, queue))
        return queue

    async def _speak_all(self, turn: int, queue: asyncio.Queue[ev.Say | None]) -> None:
        index = 0
        played = _Counted(self._servers.tts.rate)
        try:
            while (say := await queue.get()) is not None:
                index = say.index
                await self._speak(say, played)
                self._feed(ev.SentenceDone(turn, index))
            self._call.finish(turn)
        except Exception as error:
            if is_error(error, "CallGone"):
                return
            self._failure("speech", error)
            self._feed(ev.VoiceFailed(turn, index))

    async def _speak(self, say: ev.Say, played: _Counted) -> None:
        cached = self._servers.phrases.get(say.text)
        if cached is not None:
            for start in range(0, len(cached), _PIECE):
                await self._play(say, cached[start : start + _PIECE], played)
            return
        async with contextlib.aclosing(self._servers.tts.speak(say.text)) as chunks:
            async for pcm in chunks:
                await self._play(say, pcm, played)

    def _fill(self, turn: int, text: str) -> None:
        """From the cache at once or not at all: what comes late would play into the answer."""
        pcm = self._servers.phrases.get(text)
        rate = self._servers.tts.rate
        try:
            if pcm is None:
                raise _NotCachedError
            self._call.play(pcm, rate, turn)
        except Exception as error:
            if not (isinstance(error, _NotCachedError) or is_error(error, "PlayoutFull")):
                raise
            self._feed(ev.VoiceFailed(turn, 0))
            return
        self._feed(ev.SentenceAudio(turn, 0, len(pcm) // 2 * COUNT_RATE // rate))
        self._feed(ev.SentenceDone(turn, 0))
        self._call.finish(turn)

    async def _play(self, say: ev.Say, pcm: bytes, played: _Counted) -> None:
        while True:
            try:
                self._call.play(pcm, self._servers.tts.rate, say.turn_id)
                break
            except Exception as error:
                if not is_error(error, "PlayoutFull"):
                    raise
                await asyncio.sleep(_FULL_RETRY_S)
        self._feed(ev.SentenceAudio(say.turn_id, say.index, played.add(len(pcm) // 2)))

    # --- the account ---

    async def _write_timeline(self) -> None:
        if self._call.recording is None:
            return
        self._meta.setdefault("ended_ns", self._clock())
        doc = timeline.document(self.machine.history, self._meta)
        path = timeline.path_for(self._call.recording)
        try:
            await asyncio.to_thread(timeline.write, path, doc)
        except OSError as error:
            self._log.error(
                "the timeline cannot be written: %s; check recording.dir", error.strerror
            )

    @property
    def figures(self) -> dict[str, Any]:
        """The core's of the whole call, once it has ended."""
        return dict(self._meta.get("stats", {}))

    @property
    def over(self) -> bool:
        return self.machine.state is State.ENDED


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


class _NotCachedError(Exception):
    """A phrase that was never synthesised."""


class _Counted:
    """Samples of a voice as the machine counts them, rounded over the turn and not at every chunk."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._source = 0

    def add(self, samples: int) -> int:
        before = self._source * COUNT_RATE // self._rate
        self._source += samples
        return self._source * COUNT_RATE // self._rate - before
