# SPDX-License-Identifier: GPL-3.0-or-later
"""A name server in plain Python that knows a few records; any other name does not exist."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Mapping, Sequence

from .closing import Closing

_A, _AAAA, _SRV = 1, 28, 33
_NO_SUCH_NAME = 3


def _name(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def srv(priority: int, port: int, target: str) -> tuple[int, bytes]:
    """A record for a service."""
    return _SRV, struct.pack("!HHH", priority, 1, port) + _name(target)


def address(text: str) -> tuple[int, bytes]:
    """An A or AAAA record."""
    ip = ipaddress.ip_address(text)
    return (_A if ip.version == 4 else _AAAA), ip.packed


class NameServer(Closing):
    """Answers over UDP on loopback until it is closed."""

    def __init__(self, records: Mapping[str, Sequence[tuple[int, bytes]]]) -> None:
        self._records = records
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="dns", daemon=True)
        self._thread.start()

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._closing = True
        self._thread.join(2)
        self._socket.close()

    def _serve(self) -> None:
        while not self._closing:
            try:
                query, source = self._socket.recvfrom(4096)
            except (TimeoutError, ConnectionError):
                continue
            self._socket.sendto(self._answer(query), source)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind: int = struct.unpack_from("!H", query, at + 1)[0]
        known = self._records.get(".".join(labels))
        found = [data for record, data in known or () if record == kind]
        flags = 0x8180 | (_NO_SUCH_NAME if known is None else 0)
        answers = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data for data in found
        )
        return (
            query[:2]
            + struct.pack("!5H", flags, 1, len(found), 0, 0)
            + query[12 : at + 5]
            + answers
        )
