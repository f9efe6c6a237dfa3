# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP written packet by packet: what is sent, when, and from where is the test's alone."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from . import audio
from .ports import free_block
from .rtp import FRAME, Address, header

KEYS = "0123456789*#ABCD"


@dataclass(frozen=True)
class Datagram:
    """Something that arrived, when (monotonic seconds) and on which of the two ports."""

    at: float
    rtcp: bool
    source: Address
    data: bytes

    @property
    def payload_type(self) -> int:
        return self.data[1] & 0x7F

    @property
    def marker(self) -> bool:
        return bool(self.data[1] & 0x80)

    @property
    def sequence(self) -> int:
        return int(struct.unpack_from("!H", self.data, 2)[0])

    @property
    def timestamp(self) -> int:
        return int(struct.unpack_from("!I", self.data, 4)[0])

    @property
    def ssrc(self) -> int:
        return int(struct.unpack_from("!I", self.data, 8)[0])

    @property
    def payload(self) -> bytes:
        return self.data[12:]


class ScriptEnd:
    """A pair of sockets that sends what it is given at the time that it is given for."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = free_block(2, host=host)
        self.received: list[Datagram] = []
        self._sockets = [self._bind(self.port), self._bind(self.port + 1)]

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind((self.host, port))
        bound.setblocking(False)
        return bound

    def send(self, data: bytes, remote: Address, *, rtcp: bool = False) -> None:
        self._sockets[rtcp].sendto(data, remote)

    def run(self, schedule: Iterable[tuple[float, bytes]], remote: Address) -> None:
        """Sends each datagram so many seconds after now, in order, and keeps what arrives meanwhile."""
        began = time.monotonic()
        for after, data in schedule:
            self.listen(began + after - time.monotonic())
            self.send(data, remote)

    def listen(self, seconds: float) -> None:
        """Keep what arrives for so long."""
        end = time.monotonic() + seconds
        while True:
            for rtcp, source in enumerate(self._sockets):
                self._read(source, bool(rtcp))
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.004))

    def _read(self, source: socket.socket, rtcp: bool) -> None:
        while True:
            try:
                data, (host, port) = source.recvfrom(2048)
            except (BlockingIOError, ConnectionError):
                return
            self.received.append(Datagram(time.monotonic(), rtcp, (host, port), data))

    def rtp(self, payload_type: int | None = None) -> list[Datagram]:
        """RTP that came on the RTP port, of one payload type or all."""
        return [
            d
            for d in self.received
            if not d.rtcp
            and len(d.data) >= 12
            and not 192 <= d.data[1] <= 223
            and payload_type in (None, d.payload_type)
        ]

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def __enter__(self) -> ScriptEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Talker:
    """Makes the packets of one stream, 20 ms each; keeps its place in time, sequence and timestamp."""

    def __init__(
        self,
        *,
        payload_type: int = audio.A_LAW,
        event_type: int = 101,
        ssrc: int = 0x5EED0001,
        sequence: int = 20_000,
        timestamp: int = 400_000,
        at: float = 0.0,
    ) -> None:
        self.payload_type = payload_type
        self.event_type = event_type
        self.ssrc = ssrc
        self.sequence = sequence
        self.timestamp = timestamp
        self.at = at

    def _packet(
        self, payload: bytes, payload_type: int, timestamp: int, *, marker: bool = False
    ) -> tuple[float, bytes]:
        head = header(payload_type, self.sequence, timestamp & 0xFFFFFFFF, self.ssrc, marker=marker)
        self.sequence = self.sequence + 1 & 0xFFFF
        return self.at, head + payload

    def _advance(self) -> None:
        self.at += 0.02
        self.timestamp = self.timestamp + FRAME & 0xFFFFFFFF

    def say(self, samples: Sequence[int]) -> Iterator[tuple[float, bytes]]:
        """Audio, whole frames of it."""
        for start in range(0, len(samples) - FRAME + 1, FRAME):
            payload = audio.encode(samples[start : start + FRAME], self.payload_type)
            yield self._packet(payload, self.payload_type, self.timestamp)
            self._advance()

    def noise(self, level: int = 70) -> tuple[float, bytes]:
        """One comfort noise packet (RFC 3389)."""
        packet = self._packet(bytes([level]), 13, self.timestamp)
        self._advance()
        return packet

    def press(
        self, digit: str, seconds: float, *, gap: float = 0.1
    ) -> Iterator[tuple[float, bytes]]:
        """A key as telephone-event: a packet every 20 ms, the last one three times; then a pause."""
        code, frames = KEYS.index(digit), round(seconds / 0.02)
        start = self.timestamp
        for count in range(1, frames + 3):
            told = min(count, frames)
            payload = struct.pack("!BBH", code, 10 | (0x80 if told == frames else 0), told * FRAME)
            yield self._packet(payload, self.event_type, start, marker=count == 1)
            self._advance()
        for _ in range(round(gap / 0.02)):
            self._advance()


def without(
    packets: Iterable[tuple[float, bytes]], lost: Iterable[int]
) -> Iterator[tuple[float, bytes]]:
    """The packets but those at these places."""
    gone = set(lost)
    for place, packet in enumerate(packets):
        if place not in gone:
            yield packet
