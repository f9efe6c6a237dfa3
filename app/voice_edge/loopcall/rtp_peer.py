# SPDX-License-Identifier: GPL-3.0-or-later
"""The audio side of a call: a thread that sends a frame every 20 ms and stamps all that arrives.

The clock is absolute (frame n leaves at start + n·20 ms, so lateness never adds up) and lives in a
thread of its own, since an asyncio loop that parses JSON would be late. Arrival times are the
kernel's (SO_TIMESTAMPNS), so a busy interpreter does not falsify what is measured.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from . import rtp
from .g711 import PCMA, Codec, Pcm

RATE = 8000
FRAME = 160  # samples in 20 ms
FRAME_NS = 20_000_000
AUDIBLE_RMS = 104.0  # -50 dBFS: softer is taken as silence

# Linux values; Python's socket module has no name for them.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")


@dataclass(frozen=True)
class Arrival:
    """A packet received: kernel's time of arrival, its audio (empty if not of the codec)."""

    at_ns: int
    packet: rtp.RtpPacket
    pcm: Pcm


@dataclass(frozen=True)
class Departure:
    """A frame sent at ``at_ns``."""

    at_ns: int
    pcm: Pcm


@dataclass
class Utterance:
    """Speech handed over with ``say``. ``frames`` fill up as they leave."""

    pcm: Pcm
    frames: list[int] = field(default_factory=list)  # departure times, one every 160 samples
    done: threading.Event = field(default_factory=threading.Event)

    def time_of(self, sample: int) -> int:
        """When a sample of the utterance was on the wire, ns. Raises IndexError if not yet."""
        return self.frames[sample // FRAME] + (sample % FRAME) * 1_000_000_000 // RATE


class RtpPeer:
    """Sends silence or what ``say`` queued, from ``start`` until ``stop``; receives throughout.

    ``noise_dbfs`` adds white noise of that level to all that is sent, as every real line has.
    ``arrivals``, ``departures`` grow during the call and may be read at any time; ``stats`` counts.
    """

    def __init__(
        self, bind: str = "127.0.0.1", *, seed: int | None = None, noise_dbfs: float | None = None
    ) -> None:
        chance = random.Random(seed)  # noqa: S311 - sequence numbers of a test call
        self.rtp_socket, self.rtcp_socket = _socket_pair(bind)
        self.port = int(self.rtp_socket.getsockname()[1])
        self.arrivals: list[Arrival] = []
        self.departures: list[Departure] = []
        self.stats = rtp.ReceiverStats()
        self.rtcp_received = 0
        self.send_errors = 0
        self.max_late_ns = 0
        self.last_audible_ns = 0  # arrival of the latest frame that is not silence
        self._noise = _noise(noise_dbfs, seed)
        self._ssrc = chance.getrandbits(32)
        self._sequence = chance.getrandbits(15)
        self._timestamp = chance.getrandbits(31)
        self._codec: Codec = PCMA
        self._payload_type = PCMA.payload_type
        self._remote: tuple[str, int] | None = None
        self._queue: deque[Utterance] = deque()
        self._position = 0
        self._marker = True
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopcall-rtp", daemon=True)

    def set_remote(self, address: tuple[str, int], codec: Codec, payload_type: int) -> None:
        """Where to send, and how to code; may change during the call."""
        with self._lock:
            self._remote, self._codec, self._payload_type = address, codec, payload_type

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the sockets. May be called twice, or before ``start``."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        self.rtp_socket.close()
        self.rtcp_socket.close()

    def say(self, pcm: Pcm) -> Utterance:
        """Queue speech (8 kHz); it starts with the next frame, after what is queued already."""
        padded = np.concatenate([pcm, np.zeros(-len(pcm) % FRAME, dtype=np.int16)])
        utterance = Utterance(padded.astype(np.int16))
        with self._lock:
            self._queue.append(utterance)
        return utterance

    def send_raw(self, datagram: bytes) -> None:
        """Send any bytes from the RTP port (for tests of the peer's robustness)."""
        with self._lock:
            remote = self._remote
        if remote is not None:
            self.rtp_socket.sendto(datagram, remote)

    # The thread

    def _run(self) -> None:
        # A stop-watch should not wait for what it measures. Permitted to root only; fine without.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))  # 0 is this thread alone
        start = time.monotonic_ns()
        number = 0
        while not self._stop.is_set():
            due = start + number * FRAME_NS
            wait = due - time.monotonic_ns()
            if wait > 0:
                self._receive(wait / 1e9)
                continue
            if -wait > self.max_late_ns and number:
                self.max_late_ns = -wait
            self._send_frame()
            number += 1

    def _receive(self, wait_s: float) -> None:
        sockets = [self.rtp_socket, self.rtcp_socket]
        readable, _, _ = select.select(sockets, [], [], min(wait_s, 0.02))
        if self.rtcp_socket in readable:
            with contextlib.suppress(OSError):
                self.rtcp_socket.recv(2048)
                self.rtcp_received += 1
        if self.rtp_socket not in readable:
            return
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data, ancillary, _, _ = self.rtp_socket.recvmsg(2048, 128)
                except ConnectionRefusedError:  # ICMP of an earlier packet of ours
                    self.send_errors += 1
                    continue
                self._arrived(data, _kernel_time(ancillary))

    def _arrived(self, data: bytes, at_ns: int) -> None:
        try:
            packet = rtp.parse(data)
        except rtp.RtpParseError:
            self.stats.malformed += 1
            return
        self.stats.add(packet, at_ns)
        ours = packet.payload_type == self._payload_type
        pcm = self._codec.decode(packet.payload if ours else b"")
        self.arrivals.append(Arrival(at_ns, packet, pcm))
        if len(pcm) and rms(pcm) >= AUDIBLE_RMS:
            self.last_audible_ns = at_ns

    def _send_frame(self) -> None:
        with self._lock:
            pcm, utterance = self._next_frame()
            remote, codec, number = self._remote, self._codec, self._payload_type
        self._timestamp = (self._timestamp + FRAME) & 0xFFFFFFFF
        if remote is None:
            if utterance is not None:
                utterance.frames.append(time.monotonic_ns())
            return
        self._sequence = (self._sequence + 1) & 0xFFFF
        if self._noise is not None:
            noise = self._noise[self._sequence % len(self._noise)]
            pcm = np.clip(pcm + noise, -32768, 32767).astype(np.int16)
        packet = rtp.RtpPacket(
            number, self._sequence, self._timestamp, self._ssrc, self._marker, codec.encode(pcm)
        )
        self._marker = False
        now = time.monotonic_ns()
        try:
            self.rtp_socket.sendto(packet.encode(), remote)
        except OSError:
            self.send_errors += 1
        self.departures.append(Departure(now, pcm))
        if utterance is not None:
            utterance.frames.append(now)
            if len(utterance.frames) * FRAME >= len(utterance.pcm):
                utterance.done.set()

    def _next_frame(self) -> tuple[Pcm, Utterance | None]:
        if not self._queue:
            return _SILENCE, None
        utterance = self._queue[0]
        frame = utterance.pcm[self._position : self._position + FRAME]
        self._position += FRAME
        if self._position >= len(utterance.pcm):
            self._queue.popleft()
            self._position = 0
        return frame, utterance


def _noise(dbfs: float | None, seed: int | None) -> npt.NDArray[np.int32] | None:
    """Frames of noise, 2.5 s of them: longer than an ear notices the repetition."""
    if dbfs is None:
        return None
    level = 32768 * 10 ** (dbfs / 20)
    return np.random.default_rng(seed).normal(0.0, level, (128, FRAME)).astype(np.int32)


_SILENCE: Pcm = np.zeros(FRAME, dtype=np.int16)


def rms(pcm: Pcm) -> float:
    """Root mean square of int16 samples, 0 for none."""
    return float(np.sqrt(np.mean(np.square(pcm.astype(np.float64))))) if len(pcm) else 0.0


def _socket_pair(bind: str) -> tuple[socket.socket, socket.socket]:
    """An even port for RTP and the next one for RTCP (RFC 3550 §11)."""
    for _ in range(100):
        first = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        second = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            first.bind((bind, 0))
            port = int(first.getsockname()[1])
            if port % 2 == 0:
                second.bind((bind, port + 1))
                first.setblocking(False)
                second.setblocking(False)
                with contextlib.suppress(OSError):  # without it the time of reading is used
                    first.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                return first, second
        except OSError:
            pass
        first.close()
        second.close()
    raise OSError(f"no free pair of UDP ports on {bind}")


def _kernel_time(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Arrival on the monotonic clock: the kernel stamps with the wall clock, so the age is taken
    off the monotonic time now (a step of the wall clock can spoil one packet, no more)."""
    now = time.monotonic_ns()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            stamp: tuple[int, int] = _TIMESPEC.unpack_from(data)
            age = time.time_ns() - (stamp[0] * 1_000_000_000 + stamp[1])
            if 0 <= age < 1_000_000_000:
                return now - age
    return now
