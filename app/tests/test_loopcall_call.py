# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole call of loopcall on loopback, against a peer of a few lines that echoes the audio.

Real sockets and real time, but well under a second; nothing is asserted about how fast it went.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import numpy as np
import pytest

from voice_edge.loopcall import measure, rtp_peer, sdp, sip_message
from voice_edge.loopcall.caller import Caller, CallFailed, CallOver
from voice_edge.loopcall.g711 import PCMU
from voice_edge.loopcall.sip_message import SipMessage

Address = tuple[str, int]


class EchoPeer(asyncio.DatagramProtocol):
    """Answers INVITE with ``status`` and BYE with 200; ``hang_up`` sends BYE itself."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.requests: list[SipMessage] = []
        self.rtp_port = 0
        self._source: Address = ("", 0)
        self._wire: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        message = sip_message.parse(data)
        if message.is_response:
            return
        self.requests.append(message)
        self._source = addr
        if message.method == "INVITE":
            self._answer(message, self.status)
        elif message.method == "BYE":
            self._answer(message, 200)

    def _answer(self, request: SipMessage, status: int) -> None:
        assert self._wire is not None
        body = sdp.write("127.0.0.1", self.rtp_port, [PCMU]) if request.body else b""
        answer = SipMessage(f"SIP/2.0 {status} Answer", body=body)
        answer.headers = [(name, request.get(name)) for name in ("Via", "From", "Call-ID", "CSeq")]
        answer.headers.append(("To", request.get("To").split(";")[0] + ";tag=peer"))
        host, port = self._wire.get_extra_info("sockname")[:2]
        answer.headers.append(("Contact", f"<sip:{host}:{port}>"))
        self._wire.sendto(answer.encode(), self._source)

    def hang_up(self) -> None:
        assert self._wire is not None
        invite = self.requests[0]
        bye = SipMessage(f"BYE {invite.contact_uri} SIP/2.0")
        bye.headers = [
            ("Via", "SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKhangup"),
            ("From", invite.get("To") + ";tag=peer"),
            ("To", invite.get("From")),
            ("Call-ID", invite.call_id),
            ("CSeq", "1 BYE"),
        ]
        self._wire.sendto(bye.encode(), self._source)


class EchoRtp(asyncio.DatagramProtocol):
    """Sends every packet back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._wire.sendto(data, addr)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.01)


@pytest.fixture
async def peer() -> AsyncIterator[tuple[EchoPeer, Address]]:
    loop = asyncio.get_running_loop()
    rtp_wire, _ = await loop.create_datagram_endpoint(EchoRtp, local_addr=("127.0.0.1", 0))
    wire, echo = await loop.create_datagram_endpoint(EchoPeer, local_addr=("127.0.0.1", 0))
    echo.rtp_port = rtp_wire.get_extra_info("sockname")[1]
    yield echo, wire.get_extra_info("sockname")[:2]
    wire.close()
    rtp_wire.close()


async def test_speech_goes_out_and_comes_back(peer: tuple[EchoPeer, Address]) -> None:
    echo, address = peer
    tone = (9000 * np.sin(np.arange(1600) / 3)).astype(np.int16)
    async with Caller(address, seed=3) as caller:
        await caller.dial("sip:agent@127.0.0.1")
        spoken = await caller.say(tone)
        assert await caller.hear_speech(caller.answered_ns, 2.0)
        assert await caller.hear_silence(0.04, 2.0)
        sound = measure.heard(caller.rtp.arrivals)
    first = measure.first_audible_after(sound, 0)
    assert first is not None
    # The echo cannot come before the sound; the packets' codec is the one of the answer.
    assert first >= measure.first_speech_ns(spoken)
    assert {arrival.packet.payload_type for arrival in caller.rtp.arrivals} == {0}
    times = [frame.at_ns for frame in caller.rtp.departures]
    assert times == sorted(times)
    assert caller.rtp.stats.malformed == 0
    assert [request.method for request in echo.requests] == ["INVITE", "ACK", "BYE"]
    assert caller.ended is not None
    assert not caller.ended.by_remote


async def test_sockets_are_closed_afterwards(peer: tuple[EchoPeer, Address]) -> None:
    _, address = peer
    async with Caller(address) as caller:
        await caller.dial("sip:agent@127.0.0.1")
    assert caller.rtp.rtp_socket.fileno() == -1
    assert caller.rtp.rtcp_socket.fileno() == -1


async def test_a_refused_call_says_so(peer: tuple[EchoPeer, Address]) -> None:
    echo, address = peer
    echo.status = 486
    async with Caller(address) as caller:
        with pytest.raises(CallFailed, match="486") as failure:
            await caller.dial("sip:agent@127.0.0.1")
    assert failure.value.status == 486
    await until(lambda: len(echo.requests) > 1)  # the ACK is on its way
    assert [request.method for request in echo.requests] == ["INVITE", "ACK"]


async def test_a_peer_that_hangs_up_ends_what_the_caller_does(
    peer: tuple[EchoPeer, Address],
) -> None:
    echo, address = peer
    async with Caller(address) as caller:
        await caller.dial("sip:agent@127.0.0.1")
        echo.hang_up()
        with pytest.raises(CallOver):
            await caller.say(np.zeros(80_000, dtype=np.int16))
    assert caller.ended is not None
    assert caller.ended.by_remote


async def test_the_line_can_be_noisy(peer: tuple[EchoPeer, Address]) -> None:
    _, address = peer
    async with Caller(address, seed=1, noise_dbfs=-60.0) as caller:
        await caller.dial("sip:agent@127.0.0.1")
        await until(lambda: len(caller.rtp.arrivals) > 5)
    level = rtp_peer.rms(caller.rtp.arrivals[2].pcm)
    assert 20 * np.log10(level / 32768) == pytest.approx(-60.0, abs=1.5)
    assert caller.rtp.last_audible_ns == 0, "noise of a line is no speech"


async def test_any_bytes_can_be_sent(peer: tuple[EchoPeer, Address]) -> None:
    echo, address = peer
    async with Caller(address) as caller:
        await caller.dial("sip:agent@127.0.0.1")
        caller.rtp.send_raw(b"\x00 not RTP")  # comes back through the echo
        await until(lambda: caller.rtp.stats.malformed)
        caller.send_sip(
            b"OPTIONS sip:x SIP/2.0\r\nVia: a;branch=b\r\nFrom: <a:b>\r\n"
            b"To: <a:b>\r\nCall-ID: c\r\nCSeq: 1 OPTIONS\r\n\r\n"
        )
        await until(lambda: echo.requests[-1].method == "OPTIONS")
