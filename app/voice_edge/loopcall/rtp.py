# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP packets and the receiver's counts (RFC 3550 §5.1, appendix A)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("!BBHII")


class RtpParseError(ValueError):
    """The datagram is not an RTP packet of version 2."""


@dataclass(frozen=True)
class RtpPacket:
    """One packet; ``marker`` starts a talk-spurt (RFC 3551 §4.1)."""

    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    marker: bool
    payload: bytes

    def encode(self) -> bytes:
        second = self.payload_type | (0x80 if self.marker else 0)
        head = _HEADER.pack(0x80, second, self.sequence, self.timestamp, self.ssrc)
        return head + self.payload


def parse(datagram: bytes) -> RtpPacket:
    """Read a packet, its CSRCs, extension and padding left out. Raises RtpParseError."""
    if len(datagram) < _HEADER.size:
        raise RtpParseError("shorter than an RTP header")
    first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(datagram)
    if first >> 6 != 2:
        raise RtpParseError("not RTP version 2")
    start, end = _HEADER.size + 4 * (first & 0x0F), len(datagram)
    if first & 0x10:
        if end < start + 4:
            raise RtpParseError("header extension cut off")
        start += 4 + 4 * int.from_bytes(datagram[start + 2 : start + 4], "big")
    if first & 0x20:
        padding = datagram[-1]
        if padding == 0:
            raise RtpParseError("padding of 0 bytes")
        end -= padding
    if start > end:
        raise RtpParseError("packet shorter than its header says")
    payload = bytes(datagram[start:end])
    return RtpPacket(second & 0x7F, sequence, timestamp, ssrc, bool(second & 0x80), payload)


@dataclass
class ReceiverStats:
    """Counts of one received stream. ``jitter_ms`` as RFC 3550 §6.4.1, at the 8 kHz clock."""

    packets: int = 0
    duplicates: int = 0
    reordered: int = 0
    malformed: int = 0
    max_gap_ms: float = 0.0
    jitter_ms: float = 0.0

    def __post_init__(self) -> None:
        self._ssrc: int | None = None
        self._base = self._highest = 0
        self._seen: set[int] = set()
        self._lost_before = 0
        self._arrival_ns = 0
        self._timestamp = 0

    @property
    def expected(self) -> int:
        """Packets between the first and the highest sequence number of the stream now received."""
        return 0 if self._ssrc is None else self._highest - self._base + 1

    @property
    def lost(self) -> int:
        """Packets that never came; those of streams before a change of SSRC included."""
        return self._lost_before + self.expected - len(self._seen)

    def add(self, packet: RtpPacket, arrival_ns: int) -> None:
        """Count a packet that arrived at ``arrival_ns``."""
        if packet.ssrc != self._ssrc:
            self._lost_before = self.lost
            self._ssrc = packet.ssrc
            self._base = self._highest = packet.sequence
            self._seen = set()
            self._arrival_ns = 0
        # Extend the 16-bit number to the one nearest to the highest seen.
        offset = (packet.sequence - self._highest + 0x8000) % 0x10000 - 0x8000
        number = self._highest + offset
        self.packets += 1
        if number in self._seen:
            self.duplicates += 1
            return
        self._seen.add(number)
        if offset < 0:
            self.reordered += 1
            self._base = min(self._base, number)
            return
        self._highest = number
        if self._arrival_ns:
            self._spacing(packet, arrival_ns)
        self._arrival_ns, self._timestamp = arrival_ns, packet.timestamp

    def _spacing(self, packet: RtpPacket, arrival_ns: int) -> None:
        gap_ms = (arrival_ns - self._arrival_ns) / 1e6
        self.max_gap_ms = max(self.max_gap_ms, gap_ms)
        ticks = (packet.timestamp - self._timestamp + 0x80000000) % 0x100000000 - 0x80000000
        deviation = abs(gap_ms - ticks / 8.0)
        self.jitter_ms += (deviation - self.jitter_ms) / 16.0
