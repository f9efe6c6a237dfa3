# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of RFC 4475 and RFC 5118, thrown at a core by somebody who is at every port they name."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .closing import Closing
from .datagrams import Address, field, status_of

_FOLDER = Path(__file__).parent.parent / "torture"
# A core answers at the port of the top Via (RFC 3261 section 18.2.2): those that the messages name.
_PORTS = (5060, 5050, 6050, 19823)


@dataclass(frozen=True)
class Message:
    """One of the messages and what it must get; status 0 is silence."""

    name: str
    data: bytes
    status: int
    stream_status: int
    ipv6_status: int
    why: str

    @property
    def call_id(self) -> bytes:
        found = re.search(rb"^(?:call-id|i)\s*:\s*(\S+)", self.data, re.MULTILINE | re.IGNORECASE)
        return found[1] if found else b""

    @property
    def is_response(self) -> bool:
        return self.data.startswith(b"SIP/")

    @property
    def branch(self) -> bytes:
        """By which PJSIP knows a transaction again: the RFC uses some of them more than once."""
        found = re.search(rb"branch\s*=\s*([^\s;,]+)", self.data)
        return found[1] if found else self.call_id


def messages() -> list[Message]:
    """All of them; a file without an entry in the table, or the other way round, is an error."""
    table = tomllib.loads((_FOLDER / "expected.toml").read_text(encoding="utf-8"))
    files = {(p.parent.name, p.stem): p for p in sorted(_FOLDER.glob("*/*.dat"))}
    named = {(rfc, name) for rfc, entries in table.items() for name in entries}
    assert named == files.keys(), f"table and files differ: {named ^ files.keys()}"
    found = []
    for (rfc, name), path in files.items():
        entry = table[rfc][name]
        found.append(
            Message(
                f"{rfc}/{name}",
                path.read_bytes(),
                entry["status"],
                entry.get("stream", entry["status"]),
                entry.get("ipv6", entry["status"]),
                entry["why"],
            )
        )
    return found


class Torturer(Closing):
    """At an address of its own, with a socket at each port that an answer may go to."""

    HOST = "127.77.0.1"

    def __init__(self, remote: Address) -> None:
        self._remote = remote
        self._host = "::1" if ":" in remote[0] else self.HOST
        family = socket.AF_INET6 if ":" in remote[0] else socket.AF_INET
        self._sockets = []
        with contextlib.ExitStack() as stack:
            for port in _PORTS:
                opened = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                opened.bind((self._host, port))
                self._sockets.append(opened)
            self._stack = stack.pop_all()

    def datagram(self, message: Message, wait_s: float) -> int:
        """Final status of the answer, 0 when none comes in time. A refused INVITE is acknowledged."""
        for each in self._arrived(0):
            del each
        self._sockets[0].sendto(message.data, self._remote)
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            for opened, answer in self._arrived(left):
                # without a Call-ID of its own (insuf) the answer has none either
                if (field(answer, "Call-ID") or "").encode() != message.call_id:
                    continue
                status = status_of(answer)
                if status < 200:
                    continue
                if (field(answer, "CSeq") or "").endswith("INVITE"):
                    opened.sendto(_ack(answer), self._remote)
                return status
        return 0

    def _arrived(self, wait_s: float) -> Iterator[tuple[socket.socket, bytes]]:
        ready, _, _ = select.select(self._sockets, [], [], wait_s)
        for opened in ready:
            yield opened, opened.recv(65535)

    def stream(self, message: Message, wait_s: float) -> int:
        """The same over a connection of its own."""
        with socket.create_connection(
            self._remote, 3, source_address=(self._host, 0)
        ) as connection:
            connection.settimeout(wait_s)
            connection.sendall(message.data)
            received = b""
            while True:
                try:
                    piece = connection.recv(65535)
                except (TimeoutError, ConnectionResetError):
                    return 0
                received += piece
                found = re.search(rb"^SIP/2\.0 ([2-6]\d\d) ", received, re.MULTILINE)
                if found:
                    connection.sendall(_ack(received[found.start() :]))
                    return int(found[1])
                if not piece:
                    return 0

    def close(self) -> None:
        self._stack.close()


def _ack(answer: bytes) -> bytes:
    number = (field(answer, "CSeq") or "0").split()[0]
    lines = ["ACK sip:agent@127.0.0.1 SIP/2.0"]
    lines += [f"{name}: {field(answer, name)}" for name in ("Via", "From", "To", "Call-ID")]
    lines += [f"CSeq: {number} ACK", "Max-Forwards: 70", "Content-Length: 0", "", ""]
    return "\r\n".join(lines).encode("utf-8", "replace")
