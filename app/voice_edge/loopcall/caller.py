# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole telephone: SIP over a UDP socket in asyncio, audio in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from .g711 import CODECS, PCMA, PCMU, Codec, Pcm
from .rtp_peer import RtpPeer, Utterance
from .ua import Address, Answered, Ended, Progress, Renegotiated, UserAgent

_POLL_S = 0.01


class CallFailed(Exception):
    """The call was not answered. ``status`` is the SIP status, 408 when nothing answered."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the call was not answered: {status} {reason}".rstrip())
        self.status = status


class CallOver(Exception):
    """The peer hung up while the caller still had something to do."""


class _Wire(asyncio.DatagramProtocol):
    def __init__(self, owner: Caller) -> None:
        self._owner = owner

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._owner.datagram(data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """ICMP errors are no answer: the retransmission timers decide."""


class Caller:
    """One outgoing call. ``async with Caller(address) as caller: await caller.dial(uri)``.

    Leaving the block hangs up, waits at most a second for the answer and closes all sockets.
    ``advertise`` is what the agent must send to where that is not ``bind`` (behind a NAT).
    """

    def __init__(
        self,
        peer: Address,
        *,
        bind: str = "127.0.0.1",
        advertise: str | None = None,
        codecs: Sequence[Codec] = (PCMA, PCMU),
        user: str = "caller",
        seed: int | None = None,
        noise_dbfs: float | None = None,
    ) -> None:
        self._peer = peer
        self._bind = bind
        self._advertise = advertise
        self._codecs = codecs
        self._user = user
        self._seed = seed
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._ua: UserAgent | None = None
        self.rtp = RtpPeer(bind, seed=seed, noise_dbfs=noise_dbfs)
        self.progress: list[int] = []
        self.ended: Ended | None = None
        self.answered_ns = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Wire(self), local_addr=(self._bind, 0)
            )
        except BaseException:
            self.rtp.stop()
            raise
        local = self._transport.get_extra_info("sockname")
        self._ua = UserAgent(
            (self._advertise or local[0], local[1]),
            self._peer,
            self.rtp.port,
            codecs=self._codecs,
            user=self._user,
            seed=self._seed,
        )
        self.rtp.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.hang_up(timeout_s=1.0)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self.rtp.stop()
            if self._transport is not None:
                self._transport.close()

    @property
    def ua(self) -> UserAgent:
        """The SIP state machine. Raises RuntimeError outside ``async with``."""
        if self._ua is None:
            raise RuntimeError("use the caller in an async with block")
        return self._ua

    # Signalling

    async def dial(self, uri: str, *, timeout_s: float = 10.0, body: bytes | None = None) -> None:
        """Call and wait for the answer; audio flows then. Raises CallFailed."""
        self.ua.invite(uri, self._now(), body=body)
        self._flush()
        await self._until(lambda: self.answered_ns or self.ended, timeout_s)
        if self.ended is not None:
            raise CallFailed(self.ended.status, self.ended.reason)
        if not self.answered_ns:
            self.ua.cancel(self._now())
            self._flush()
            raise CallFailed(408, f"no answer in {timeout_s:.0f} s")

    def cancel(self) -> None:
        """Give up a call that is not answered yet; ``wait_ended`` tells the outcome."""
        self.ua.cancel(self._now())
        self._flush()

    async def hang_up(self, *, timeout_s: float = 5.0) -> None:
        """BYE (or CANCEL before the answer), and wait a little for the answer to it."""
        if self._ua is None or self._ua.state in ("idle", "ended"):
            return
        if self._ua.state == "confirmed":
            self._ua.bye(self._now())
        else:
            self._ua.cancel(self._now())
        self._flush()
        await self.wait_ended(timeout_s)

    async def wait_ended(self, timeout_s: float) -> Ended | None:
        """Wait for the end of the call; None if it goes on."""
        await self._until(lambda: self.ended, timeout_s)
        return self.ended

    def send_sip(self, data: bytes) -> None:
        """Send any bytes from the SIP port (for tests of the peer's robustness)."""
        if self._transport is not None:
            self._transport.sendto(data, self._peer)

    # Audio

    async def say(self, pcm: Pcm) -> Utterance:
        """Speak and wait until the last frame has left. Raises CallOver if the peer hangs up."""
        utterance = self.rtp.say(pcm)
        while not utterance.done.is_set():
            self._check()
            await asyncio.sleep(_POLL_S)
        return utterance

    async def hear_speech(self, after_ns: int, timeout_s: float) -> bool:
        """Wait until the peer is audible after a moment; False if it stays silent."""
        return await self._poll(lambda: self.rtp.last_audible_ns > after_ns, timeout_s)

    async def hear_silence(self, for_s: float, timeout_s: float) -> bool:
        """Wait until nothing has been audible for a while; False if the peer goes on talking."""
        quiet_ns = int(for_s * 1e9)
        return await self._poll(
            lambda: time.monotonic_ns() - self.rtp.last_audible_ns > quiet_ns, timeout_s
        )

    # Inside

    def datagram(self, data: bytes, source: Address) -> None:
        """A datagram came to the SIP socket."""
        self.ua.receive(data, source, self._now())
        self._flush()

    def _check(self) -> None:
        if self.ended is not None:
            raise CallOver(f"the call ended early: {self.ended.status} {self.ended.reason}")

    async def _poll(self, condition: Callable[[], object], timeout_s: float) -> bool:
        deadline = self._now() + timeout_s
        while not condition():
            self._check()
            if self._now() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _until(self, condition: Callable[[], object], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    def _now(self) -> float:
        return time.monotonic()

    def _flush(self) -> None:
        """Send what the state machine wants sent, take its events, set its next timer."""
        ua = self.ua
        if self._transport is None or self._transport.is_closing():
            return
        for data, address in ua.outbox:
            self._transport.sendto(data, address)
        ua.outbox.clear()
        for event in ua.events:
            if isinstance(event, Progress):
                self.progress.append(event.status)
            elif isinstance(event, Answered | Renegotiated):
                law, number = event.media.first_codec()
                remote = (event.media.address, event.media.port)
                self.rtp.set_remote(remote, CODECS[law.name], number)
                self.answered_ns = self.answered_ns or time.monotonic_ns()
            else:
                self.ended = event
        ua.events.clear()
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()
        due = ua.next_timer()
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - self._now()), self._expired)

    def _expired(self) -> None:
        self.ua.advance(self._now())
        self._flush()
