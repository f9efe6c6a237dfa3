# SPDX-License-Identifier: GPL-3.0-or-later
"""One end of an RTP stream in plain Python: sends G.711 or G.722 on a 20 ms clock, keeps every packet it gets.

Used where SIPp does the signalling but what arrives has to be looked into: order, gaps, content, source.
"""

from __future__ import annotations

import array
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from core.reference import g722

from . import audio
from .ports import free_block

FRAME = 160  # samples: 20 ms at 8 kHz
_HEADER = struct.Struct("!BBHII")
Address = tuple[str, int]


@dataclass(frozen=True)
class Packet:
    """A received RTP packet (RFC 3550 section 5.1) and when it was read (monotonic seconds)."""

    at: float
    source: Address
    payload_type: int
    marker: bool
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes


def header(
    payload_type: int,
    sequence: int,
    timestamp: int,
    ssrc: int,
    *,
    marker: bool = False,
    first_byte: int = 0x80,
) -> bytes:
    """An RTP header without CSRC; `first_byte` holds version, P, X and CC for those who want them wrong."""
    return _HEADER.pack(
        first_byte,
        payload_type | (0x80 if marker else 0),
        sequence & 0xFFFF,
        timestamp & 0xFFFFFFFF,
        ssrc,
    )


def _next(samples: array.array[int], place: int, count: int) -> tuple[array.array[int], int]:
    """So many samples from a place on, from the beginning again at the end; the next place."""
    out = array.array("h")
    while len(out) < count:
        part = samples[place : place + count - len(out)]
        out.extend(part)
        place = (place + len(part)) % len(samples)
    return out, place


class RtpEnd:
    """A bound RTP socket with a thread of its own; RTCP that arrives on the odd port is counted."""

    def __init__(
        self,
        *,
        play: Sequence[int] | None = None,
        payload_type: int = audio.A_LAW,
        host: str = "127.0.0.1",
        ssrc: int = 0x1A2B3C4D,
        wide: Sequence[int] | None = None,
    ) -> None:
        """`play` is at 8 kHz, for G.711; `wide` at 16 kHz, for G.722."""
        self.host = host
        self.port = free_block(2, host=host)
        self.payload_type = payload_type
        self.ssrc = ssrc
        self.sent = 0
        self.departures: list[float] = []
        self.sequence = 1000  # of the next packet; a test may make it jump
        self.rtcp_received = 0
        self.packets: list[Packet] = []
        self._play = array.array("h", play if play is not None else [0] * FRAME)
        self._place = 0
        self._wide = array.array("h", wide if wide is not None else [0] * 2 * FRAME)
        self._wide_place = 0
        self._encoder = g722.Encoder()
        self.coded = b""  # all G.722 that was sent
        self._remote: Address | None = None
        self._stop = threading.Event()
        self._socket = self._bind(self.port)
        self._rtcp = self._bind(self.port + 1)
        self._thread = threading.Thread(target=self._run, name="rtp-end", daemon=True)
        self._thread.start()

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind((self.host, port))
        bound.setblocking(False)
        return bound

    def send_to(self, remote: Address | None) -> None:
        """Start (or, with None, stop) sending."""
        self._remote = remote

    @property
    def remote(self) -> Address | None:
        """Where it sends."""
        return self._remote

    def inject(self, datagram: bytes, remote: Address) -> None:
        """These very bytes from this end's own port."""
        self._socket.sendto(datagram, remote)

    def inject_rtcp(self, datagram: bytes, remote: Address) -> None:
        self._rtcp.sendto(datagram, remote)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._rtcp, selectors.EVENT_READ)
            due = time.monotonic()
            while not self._stop.is_set():
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    self._read(key.fileobj is self._socket)
                if time.monotonic() >= due:
                    due += 0.02
                    self._send_frame()

    def _read(self, rtp: bool) -> None:
        try:
            data, source = (self._socket if rtp else self._rtcp).recvfrom(2048)
        except (BlockingIOError, ConnectionError):
            return
        if not rtp:
            self.rtcp_received += 1
            return
        if len(data) < 12 or data[0] >> 6 != 2:
            return
        _, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
        start = 12 + 4 * (data[0] & 15)
        self.packets.append(
            Packet(
                time.monotonic(),
                (source[0], source[1]),
                second & 0x7F,
                bool(second & 0x80),
                sequence,
                timestamp,
                ssrc,
                data[start:],
            )
        )

    def _send_frame(self) -> None:
        remote = self._remote
        if remote is None:
            return
        data = header(self.payload_type, self.sequence, self.sequence * FRAME, self.ssrc)
        try:
            self._socket.sendto(data + self._frame(), remote)
        except OSError:
            return
        self.sent += 1
        self.departures.append(time.monotonic())
        self.sequence = self.sequence + 1 & 0xFFFF

    def _frame(self) -> bytes:
        if self.payload_type == audio.G722:
            samples, self._wide_place = _next(self._wide, self._wide_place, 2 * FRAME)
            payload = self._encoder.encode(samples)
            self.coded += payload
            return payload
        samples, self._place = _next(self._play, self._place, FRAME)
        return audio.encode(samples, self.payload_type)

    def sent_before(self, at: float) -> int:
        """Packets that had left at `at` (monotonic seconds)."""
        return sum(1 for departure in list(self.departures) if departure < at)

    def since(self, at: float) -> list[Packet]:
        """Packets read at or after `at` (monotonic seconds)."""
        return [packet for packet in list(self.packets) if packet.at >= at]

    def samples(self, packets: Sequence[Packet] | None = None) -> array.array[int]:
        """G.711 packets decoded one after another, each by its own payload type; other types are left out."""
        out = array.array("h")
        for packet in list(self.packets) if packets is None else packets:
            if packet.payload_type in (audio.A_LAW, audio.MU_LAW):
                out.extend(audio.decode(packet.payload, packet.payload_type))
        return out

    def wide_samples(self, packets: Sequence[Packet] | None = None) -> array.array[int]:
        """G.722 packets decoded one after another at 16 kHz; other types are left out."""
        out, decoder = array.array("h"), g722.Decoder()
        for packet in list(self.packets) if packets is None else packets:
            if packet.payload_type == audio.G722:
                out.extend(decoder.decode(packet.payload))
        return out

    def missing(self) -> int:
        """Packets never received between the first and the last of the newest SSRC."""
        packets = list(self.packets)
        if not packets:
            return 0
        run = [packet.sequence for packet in packets if packet.ssrc == packets[-1].ssrc]
        unwrapped = set()
        high = run[0]
        for sequence in run:
            delta = (sequence - high + 0x8000 & 0xFFFF) - 0x8000
            unwrapped.add(high + delta)
            high = max(high, high + delta)
        return max(unwrapped) - min(unwrapped) + 1 - len(unwrapped)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(2)
        self._socket.close()
        self._rtcp.close()

    def __enter__(self) -> RtpEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
