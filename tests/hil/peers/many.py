# SPDX-License-Identifier: GPL-3.0-or-later
"""Many callers at once: calls that are placed one after the other, their RTP in one thread.

What each call gets is judged by its sequence numbers and timestamps, which the machine's own load does not change,
and by the longest time without a packet.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import audio
from .closing import Closing
from .datagrams import Address, Datagrams
from .dialog import Dialog
from .ports import free_block
from .rtp import FRAME, header


@dataclass
class Heard:
    """What came for one call since the last `forget`."""

    packets: int = 0
    missing: int = 0  # by sequence number
    jumps: int = 0  # timestamps that do not go on
    silent_s: float = 0.0  # longest time between two packets
    _sequence: int | None = field(default=None, repr=False)
    _timestamp: int = field(default=0, repr=False)
    _at: float = field(default=0.0, repr=False)

    def take(self, packet: bytes, at: float) -> None:
        sequence = int.from_bytes(packet[2:4], "big")
        timestamp = int.from_bytes(packet[4:8], "big")
        if self._sequence is not None:
            steps = (sequence - self._sequence) & 0xFFFF
            self.missing += steps - 1 if 0 < steps < 0x8000 else 0
            self.jumps += (timestamp - self._timestamp) & 0xFFFFFFFF != steps * FRAME
            self.silent_s = max(self.silent_s, at - self._at)
        self._sequence, self._timestamp, self._at = sequence, timestamp, at
        self.packets += 1

    def forget(self) -> None:
        """Begin anew, with what comes next as the continuation of what came last."""
        self.packets = self.missing = self.jumps = 0
        self.silent_s = 0.0


class ManyCalls(Closing):
    """`count` calls to `remote`, all answered when made. Each talks in 20 ms packets of A-law."""

    def __init__(self, remote: Address, count: int, name: str) -> None:
        self.caller = Datagrams(remote)
        self.heard = [Heard() for _ in range(count)]
        self.sent = [0] * count
        melody = audio.melody((440.0, 620.0), 0.5)
        self._voice = audio.encode(melody, audio.A_LAW)
        self._remotes: list[Address | None] = [None] * count
        self._sockets = [_bound() for _ in range(count)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"many-{name}", daemon=True)
        self._thread.start()
        self.dialogs: list[Dialog] = []
        for number in range(count):
            port = self._sockets[number].getsockname()[1]
            dialog = Dialog(self.caller, f"{name}{number}", rtp_port=port)
            self._remotes[number] = dialog.remote_rtp
            self.dialogs.append(dialog)

    def forget(self) -> None:
        for heard in self.heard:
            heard.forget()

    def gaps(self, *, seconds: float, silent_s: float) -> list[str]:
        """Calls that were not whole since the last `forget`, `seconds` ago, in words."""
        found = []
        for number, heard in enumerate(self.heard):
            fewest = (seconds - silent_s) * 50 - 2
            if heard.missing or heard.jumps or heard.silent_s > silent_s or heard.packets < fewest:
                found.append(f"call {number} in {seconds:.1f} s: {heard}")
        return found

    def byes(self, timeout_s: float = 2.0) -> int:
        """How many different calls the other side ends; each BYE is answered."""
        ended: set[str] = set()
        end = time.monotonic() + timeout_s
        while len(ended) < len(self.dialogs) and time.monotonic() < end:
            message = self.caller.receive(0.05)
            if message is None or not message.startswith(b"BYE "):
                continue
            lines = message.decode("utf-8", "replace").split("\r\n")
            kept = ("Via:", "From:", "To:", "Call-ID:", "CSeq:")
            head = [line for line in lines if line.startswith(kept)]
            ended.add(next(line for line in head if line.startswith("Call-ID:")))
            answer = ["SIP/2.0 200 OK", *head, "Content-Length: 0", "", ""]
            self.caller.send("\r\n".join(answer).encode())
        return len(ended)

    def hang_up(self) -> None:
        for dialog in self.dialogs:
            dialog.end()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for number, bound in enumerate(self._sockets):
                selector.register(bound, selectors.EVENT_READ, number)
            due = time.monotonic()
            while not self._stop.is_set():
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    self._read(key.data)
                if time.monotonic() >= due:
                    due += 0.02
                    self._send()

    def _read(self, number: int) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while packet := self._sockets[number].recv(2048):
                self.heard[number].take(packet, time.monotonic())

    def _send(self) -> None:
        for number, remote in enumerate(self._remotes):
            if remote is None:
                continue
            count = self.sent[number]
            at = (count * FRAME) % (len(self._voice) - FRAME)
            packet = header(audio.A_LAW, count, count * FRAME, number + 1)
            with contextlib.suppress(ConnectionRefusedError):
                self._sockets[number].sendto(packet + self._voice[at : at + FRAME], remote)
            self.sent[number] = count + 1

    def quiet(self) -> None:
        """Send nothing more."""
        self._remotes = [None] * len(self._remotes)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for bound in self._sockets:
            bound.close()
        self.caller.close()


def _bound() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", free_block(2)))
    bound.setblocking(False)
    return bound


def problems(calls: Sequence[ManyCalls], *, seconds: float, silent_s: float) -> list[str]:
    """Those of several lots of calls."""
    return [gap for lot in calls for gap in lot.gaps(seconds=seconds, silent_s=silent_s)]
