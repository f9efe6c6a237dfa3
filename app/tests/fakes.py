# SPDX-License-Identifier: GPL-3.0-or-later
"""A line and model servers without any: they follow the API of voicecore and of the clients.

The caller's "audio" is the text it says, so that the recogniser proves that it got the right bytes.
Event classes carry the names voicecore gives them; ``ports.line_event`` goes by those.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from voice_edge.adapters import ServerError, Stage
from voice_edge.machine import events as ev

TICK_S = 0.02


class VoicecoreError(Exception):
    code = "internal"


class CallGone(VoicecoreError):
    code = "call.gone"


class SignallingError(VoicecoreError):
    code = "sip.transfer_failed"


class PlayoutFull(VoicecoreError):
    code = "media.playout_full"


@dataclass
class Audio:
    at_ns: int
    pcm: memoryview


@dataclass
class CallStats:
    codec: str = "PCMA"
    rx_packets: int = 100
    rx_lost: int = 0
    tx_packets: int = 100
    mos_rx: float | None = 4.3
    mos_tx: float | None = None


@dataclass
class CallEnded:
    status: int
    reason: str
    by_remote: bool
    stats: CallStats = field(default_factory=CallStats)


def now_ns() -> int:
    return round(asyncio.get_running_loop().time() * 1e9)


@dataclass(frozen=True)
class Dtmf:
    """As voicecore's, but for its repr, which here shows the digit: nobody may print it."""

    digit: str
    duration_ms: int = 100
    at_ns: int = 0
    source: str = "rtp"


class FakeCall:
    """Plays what it is given at the speed of speech, in 20 ms ticks of virtual time."""

    def __init__(
        self, call_id: int = 7, *, recording: str | None = None, rate: int = 8_000
    ) -> None:
        self.id = call_id
        self.rate = rate
        self.sip_call_id = "abc@192.0.2.1"
        self.source = "192.0.2.1:5060"
        self.recording = recording
        self.rang = False
        self.answered = False
        self.gone = False
        self.hung_up = False
        self.limit_s = 120.0
        self.played: list[tuple[int, int]] = []  # (turn, samples) as sent, tick by tick
        self.sound_ns: list[int] = []  # when something of the agent was sent
        self.spoken_ns: list[tuple[int, int]] = []  # the caller's words, from and to
        self.transfers: list[str] = []
        self.transfer_fails = False
        self.clears: list[tuple[int | None, int]] = []
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._queue: list[list[int]] = []  # [turn, samples]
        self._started: dict[int, int] = {}  # samples sent by turn
        self._finished: set[int] = set()
        self._cleared: set[int] = set()
        self._line: asyncio.Task[None] | None = None
        self._ticked = asyncio.Event()

    # --- the API ---

    def ring(self) -> None:
        self.rang = True

    async def answer(self) -> None:
        assert self.rang
        await asyncio.sleep(0.01)
        if self.gone:
            raise CallGone("left")
        self.answered = True
        self._line = asyncio.create_task(self._tick())

    def reject(self, status: int = 486, *, retry_after: int | None = None) -> None:
        self._end(status, by_remote=False)

    def presses(self, digit: str) -> None:
        """The caller presses a key."""
        self._put(Dtmf(digit))

    async def transfer(self, target: str, *, timeout_s: float = 60.0, hangup: bool = True) -> int:
        self.transfers.append(target)
        await asyncio.sleep(1.0)
        if self.gone:
            raise CallGone("left")
        if self.transfer_fails:
            raise SignallingError("refused")
        self._end(200, by_remote=False)
        return 200

    def hangup(self) -> None:
        if not self.hung_up and not self.gone:
            self.hung_up = True
            self._end(200, by_remote=False)

    def play(self, pcm: bytes, rate: int, turn_id: int) -> None:
        if self.gone:
            raise CallGone("left")
        samples = len(pcm) // 2 * self.rate // rate
        if (sum(s for _, s in self._queue) + samples) / self.rate > self.limit_s:
            raise PlayoutFull("full")
        if turn_id not in self._cleared:
            self._queue.append([turn_id, samples])

    def finish(self, turn_id: int) -> None:
        self._finished.add(turn_id)

    def clear(self, turn_id: int | None = None) -> None:
        self.clears.append((turn_id, now_ns()))
        for turn in {t for t, _ in self._queue if turn_id in (None, t)} | {turn_id}:
            if turn is None or turn in self._cleared:
                continue
            self._cleared.add(turn)
            self._queue = [q for q in self._queue if q[0] != turn]
            self._put(ev.PlayoutFinished(turn, self._started.get(turn, 0), now_ns(), True))

    async def events(self) -> AsyncIterator[Any]:
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, CallEnded):
                return

    def stats(self) -> CallStats:
        return CallStats()

    # --- the line ---

    def _put(self, event: Any) -> None:
        self._events.put_nowait(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._ticked.set()
            self._ticked = asyncio.Event()
            room = self.rate // 50
            while room and self._queue:
                entry = self._queue[0]
                turn, samples = entry[0], min(room, entry[1])
                if turn not in self._started:
                    self._started[turn] = 0
                    self._put(ev.PlayoutStarted(turn, now_ns()))
                self._started[turn] += samples
                self.played.append((turn, samples))
                self.sound_ns.append(now_ns())
                room -= samples
                entry[1] -= samples
                if not entry[1]:
                    self._queue.pop(0)
            for turn in list(self._finished):
                if turn not in {t for t, _ in self._queue}:
                    self._finished.discard(turn)
                    if turn not in self._cleared:
                        self._put(
                            ev.PlayoutFinished(turn, self._started.get(turn, 0), now_ns(), False)
                        )

    def _end(self, status: int, *, by_remote: bool) -> None:
        if self.gone:
            return
        self.gone = True
        if self._line is not None:
            self._line.cancel()
        self._ticked.set()
        self._put(CallEnded(status, "Bye", by_remote))

    def samples(self, turn: int) -> int:
        return self._started.get(turn, 0)

    # --- the caller ---

    async def says(self, text: str, seconds: float = 1.0) -> None:
        """Speak, and fall silent long enough for the turn to end."""
        began = now_ns()
        await asyncio.sleep(0.064)
        self._put(ev.SpeechStarted(began, now_ns()))
        data = text.encode()
        half = len(data) // 2
        self._put(Audio(now_ns(), memoryview(data[:half])))
        await asyncio.sleep(seconds - 0.064)
        self._put(Audio(now_ns(), memoryview(data[half:])))
        ended = now_ns()
        if text:
            self.spoken_ns.append((began, ended))
        await asyncio.sleep(0.6)
        self._put(ev.SpeechEnded(ended, now_ns()))

    async def silence(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def hears_end(self, turns: int = 1) -> None:
        """Wait until this many further turns were said to their end (or cut)."""
        done = len(self._finished_turns()) + turns
        while len(self._finished_turns()) < done and not self.gone:
            await self._next_tick()

    async def hears_something(self) -> None:
        known = len(self._started)
        while len(self._started) == known and not self.gone:
            await self._next_tick()

    async def _next_tick(self) -> None:
        if self.answered:
            await self._ticked.wait()
        else:
            await asyncio.sleep(TICK_S)

    def _finished_turns(self) -> set[int]:
        waiting = {t for t, _ in self._queue} | self._finished
        return {t for t in self._started if t not in waiting}

    def leaves(self) -> None:
        self._end(200, by_remote=True)


@dataclass
class Script:
    """One answer of a fake server: pieces with the pause before each, then perhaps a failure."""

    pieces: Sequence[str] = ()
    pause_s: float = 0.05
    first_s: float = 0.2
    fails: Exception | None = None
    hangs: bool = False
    tools: Sequence[ev.ToolCall] = ()


def down(server: str) -> ServerError:
    return ServerError(server, Stage.CONNECT, "cannot connect (refused)", transient=True)


class FakeLlm:
    def __init__(self, *scripts: Script | str) -> None:
        self.scripts = [Script(s.split(" ")) if isinstance(s, str) else s for s in scripts]
        self.asked: list[tuple[ev.Message, ...]] = []
        self.open = 0

    async def reply(
        self, messages: Sequence[ev.Message]
    ) -> AsyncGenerator[str | ev.ToolCall, None]:
        self.asked.append(tuple(messages))
        script = self.scripts[min(len(self.asked), len(self.scripts)) - 1]
        self.open += 1
        try:
            await asyncio.sleep(script.first_s)
            for index, piece in enumerate(script.pieces):
                yield piece if index == 0 else " " + piece
                await asyncio.sleep(script.pause_s)
            if script.hangs:
                await asyncio.Event().wait()
            if script.fails is not None:
                raise script.fails
            for call in script.tools:
                yield call
        finally:
            self.open -= 1


class FakeTts:
    """15 characters a second, in chunks of a quarter second."""

    rate = 24_000

    def __init__(self, *, first_s: float = 0.1) -> None:
        self.first_s = first_s
        self.spoken: list[str] = []
        self.fails: Callable[[str], Exception | None] = lambda _: None
        self.open = 0

    async def speak(self, text: str) -> AsyncGenerator[bytes, None]:
        self.spoken.append(text)
        self.open += 1
        try:
            await asyncio.sleep(self.first_s)
            if (error := self.fails(text)) is not None:
                raise error
            samples = len(text) * self.rate // 15
            while samples > 0:
                size = min(samples, self.rate // 4)
                yield bytes(2 * size)
                samples -= size
                await asyncio.sleep(0.01)
        finally:
            self.open -= 1


class FakeStt:
    def __init__(self, *, delay_s: float = 0.3) -> None:
        self.delay_s = delay_s
        self.fails: Exception | None = None
        self.rates: set[int] = set()
        self.open = 0

    async def transcribe(self, pcm: bytes, rate: int) -> str:
        self.rates.add(rate)
        self.open += 1
        try:
            await asyncio.sleep(self.delay_s)
            if self.fails is not None:
                raise self.fails
            return bytes(pcm).decode()
        finally:
            self.open -= 1
