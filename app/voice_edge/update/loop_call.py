# SPDX-License-Identifier: GPL-3.0-or-later
"""A call from the box to its own agent, with speech in both directions: what a release's first start is judged by.

The agent is heard greeting; what it said is then said to it, which is speech enough for it to answer: speech detection,
recognition, language model, voice and the core's media path all have their part. It needs no recording and no numpy.
It has to come as far as with the release before, just before the restart: a model server that is down, or settings with
which no such call is possible, are no fault of a release.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..loopcall import laws, rtp
from ..loopcall.ua import Address, Answered, Ended, Renegotiated, UserAgent

NOTHING, ANSWERED, SPOKE, REPLIED = range(4)
"""How far a call came, each with what was before it. ``ANSWERED`` includes half a second of media."""
NAMES = ("not answered", "answered", "greeted", "answered what was said to it")
HERE = "127.0.0.1"
FRAME = 160
FRAME_S = 0.02
MEDIA_FRAMES = 25
AUDIBLE = 104 * 104
"""Mean square of int16: -50 dBFS."""
SPEECH_FRAMES = 10
PAUSE_S = 1.2
MOST_S = 20.0
"""Of the greeting that is said back."""
USER = "update-check"


@dataclass(frozen=True, slots=True)
class Times:
    """How long each step may take, in seconds."""

    answer: float = 30.0
    greeting: float = 45.0
    reply: float = 60.0


def agent_port(config: Path) -> int:
    """The UDP port of SIP in the agent's settings. Raises OSError, tomllib.TOMLDecodeError."""
    sip = tomllib.loads(config.read_text(encoding="utf-8")).get("sip", {})
    return int(sip.get("port", 5060))


def place(port: int, times: Times | None = None) -> int:
    """Call the agent at ``port`` of this machine; returns how far it came."""
    return asyncio.run(_call((HERE, port), times or Times()))


async def _call(agent: Address, times: Times) -> int:
    with contextlib.ExitStack() as stack:
        media, control = _pair(stack)
        loop = asyncio.get_running_loop()
        sip = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sip.bind((HERE, 0))
        sip.setblocking(False)
        line = _Line(agent, sip, media)
        stack.callback(loop.remove_reader, sip)
        loop.add_reader(sip, line.receive)
        stack.callback(loop.remove_reader, media)
        loop.add_reader(media, line.hear)
        speaking = asyncio.create_task(line.keep_speaking())
        try:
            return await line.hold(times)
        finally:
            await line.hang_up()
            speaking.cancel()
            del control  # bound for its port alone: nobody else's RTCP comes from there


class _Line:
    def __init__(self, agent: Address, sip: socket.socket, media: socket.socket) -> None:
        self._agent, self._sip, self._media = agent, sip, media
        self._timer: asyncio.TimerHandle | None = None
        own, port = sip.getsockname(), media.getsockname()[1]
        self._ua = UserAgent((own[0], own[1]), agent, port, user=USER)
        self._law = laws.PCMA
        self._squares: tuple[int, ...] = ()
        self._remote: Address | None = None
        self._ended: Ended | None = None
        self._say: list[bytes] = []
        self._kept: list[bytes] = []
        self._keeping = True
        self.frames = self.audible = 0
        self.last_audible = 0.0

    # Signalling

    def receive(self) -> None:
        """Takes in what has come."""
        # An ICMP error, since nobody listens yet, is no answer: the retransmission timers decide.
        with contextlib.suppress(OSError):
            data, source = self._sip.recvfrom(65_535)
            self._ua.receive(data, (source[0], source[1]), time.monotonic())
            self._flush()

    def _flush(self) -> None:
        agent = self._ua
        for data, address in agent.outbox:
            with contextlib.suppress(OSError):
                self._sip.sendto(data, address)
        agent.outbox.clear()
        for event in agent.events:
            if isinstance(event, Answered | Renegotiated):
                self._law, _ = event.media.first_codec()
                self._squares = tuple(value * value for value in laws.magnitudes(self._law))
                # Not the address that it names, which may be that of a router before this box.
                self._remote = (HERE, event.media.port)
            elif isinstance(event, Ended):
                self._ended = event
        agent.events.clear()
        if self._timer is not None:
            self._timer.cancel()
        due = agent.next_timer()
        if due is not None:
            later = max(0.0, due - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(later, self._expired)

    def _expired(self) -> None:
        self._ua.advance(time.monotonic())
        self._flush()

    # Media

    def hear(self) -> None:
        """Takes in what has come."""
        while True:
            try:
                packet = rtp.parse(self._media.recv(2048))
            except rtp.RtpParseError:
                continue
            except OSError:
                return
            if packet.payload_type != self._law.payload_type or not packet.payload:
                continue
            self.frames += 1
            power = sum(map(self._squares.__getitem__, packet.payload)) / len(packet.payload)
            if power >= AUDIBLE:
                self.audible += 1
                self.last_audible = time.monotonic()
            if self._keeping and self.audible and len(self._kept) * FRAME_S < MOST_S:
                self._kept.append(packet.payload)

    async def keep_speaking(self) -> None:
        """A frame every 20 ms by an absolute clock: what is to be said, else silence."""
        silence = {laws.PCMA.name: b"\xd5", laws.PCMU.name: b"\xff"}
        begun, number = time.monotonic(), 0
        while True:
            number += 1
            await asyncio.sleep(max(0.0, begun + number * FRAME_S - time.monotonic()))
            if self._remote is None:
                continue
            payload = self._say.pop(0) if self._say else silence[self._law.name] * FRAME
            packet = rtp.RtpPacket(
                self._law.payload_type, number & 0xFFFF, number * FRAME & 0xFFFFFFFF, 1, number == 1, payload
            )  # fmt: skip
            with contextlib.suppress(OSError):
                self._media.sendto(packet.encode(), self._remote)

    # The call

    async def hold(self, times: Times) -> int:
        """From INVITE to what the agent answers; how far it came."""
        self._ua.invite(f"sip:{USER}@{self._agent[0]}:{self._agent[1]}", time.monotonic())
        self._flush()
        if not await self._until(lambda: self.frames >= MEDIA_FRAMES, times.answer):
            return NOTHING
        if not await self._until(self._said_all, times.greeting):
            return ANSWERED
        self._keeping = False
        self._say = list(self._kept)
        await self._until(lambda: not self._say, MOST_S + 5)
        self.audible = 0
        if not await self._until(lambda: self.audible >= SPEECH_FRAMES, times.reply):
            return SPOKE
        return REPLIED

    def _said_all(self) -> bool:
        quiet = time.monotonic() - self.last_audible
        full = len(self._kept) * FRAME_S >= MOST_S
        return self.audible >= SPEECH_FRAMES and (quiet > PAUSE_S or full)

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._ended is not None or time.monotonic() >= deadline:
                return False
            await asyncio.sleep(FRAME_S)
        return True

    async def hang_up(self) -> None:
        """BYE, or CANCEL, and a moment for the answer."""
        if self._ended is None:
            end = self._ua.bye if self._ua.state == "confirmed" else self._ua.cancel
            end(time.monotonic())
            self._flush()
            await self._until(lambda: self._ended is not None, 2.0)
        if self._timer is not None:
            self._timer.cancel()


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """An even port for RTP and the next one for RTCP (RFC 3550 §11). Raises OSError."""
    for _ in range(100):
        with contextlib.ExitStack() as tried:
            first = tried.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            second = tried.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            first.bind((HERE, 0))
            port = int(first.getsockname()[1])
            if port % 2:
                continue
            try:
                second.bind((HERE, port + 1))
            except OSError:
                continue
            first.setblocking(False)
            stack.push(tried.pop_all())
            return first, second
    raise OSError(f"no free pair of UDP ports on {HERE}")
