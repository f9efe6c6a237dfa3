# SPDX-License-Identifier: GPL-3.0-or-later
"""A registrar and trunk in plain Python: REGISTER with digest, OPTIONS; over UDP, TCP or TLS, in threads of its own."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .closing import Closing

_HASHES: dict[str, Callable[[bytes], hashlib._Hash]] = {
    "MD5": hashlib.md5,
    "SHA-256": hashlib.sha256,
}


def header(message: str, name: str) -> str:
    """First value of a header field."""
    found = re.search(rf"^{name}\s*:\s*(.*?)\r?$", message, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


@dataclass(frozen=True)
class Seen:
    """A request as it came in."""

    at: float
    text: str
    status: int  # of the answer; 0: none was given

    @property
    def method(self) -> str:
        return self.text.split(" ", 1)[0]

    @property
    def algorithm(self) -> str:
        found = re.search(r"algorithm=\"?([A-Za-z0-9-]+)", header(self.text, "Authorization"))
        return found[1] if found else ""


@dataclass
class Registrar(Closing):
    """Knows one user.

    `refuse` may answer a request otherwise: with status and reason, and more header lines; "" is silence.
    """

    password: str
    user: str = "bot"
    realm: str = "tests"
    algorithms: Sequence[str] = ("MD5",)
    host: str = "127.0.0.1"
    transport: str = "udp"
    context: ssl.SSLContext | None = None
    expires_s: int = 0  # 0: as asked for
    refuse: Callable[[str], tuple[str, str] | None] = lambda _: None
    seen: list[Seen] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        kind = socket.SOCK_DGRAM if self.transport == "udp" else socket.SOCK_STREAM
        self._nonces: dict[str, str] = {}
        self._streams: list[socket.socket] = []
        self._closing = False
        self._socket = socket.socket(family, kind)
        if kind == socket.SOCK_STREAM:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((self.host, self.port))
        self.port = self._socket.getsockname()[1]
        self._socket.settimeout(0.05)
        if kind == socket.SOCK_STREAM:
            self._socket.listen()
        run = self._datagrams if kind == socket.SOCK_DGRAM else self._accept
        self._threads = [threading.Thread(target=run, name="registrar", daemon=True)]
        self._threads[0].start()

    @property
    def uri(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        more = "" if self.transport == "udp" else f";transport={self.transport}"
        return f"sip:{host}:{self.port}{more}"

    def of(self, method: str) -> list[Seen]:
        """The requests of a method, oldest first."""
        return [seen for seen in list(self.seen) if seen.method == method]

    def drop_connections(self) -> None:
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def close(self) -> None:
        self._closing = True
        for thread in self._threads:
            thread.join(2)
        self.drop_connections()
        self._socket.close()

    def _datagrams(self) -> None:
        while not self._closing:
            try:
                data, source = self._socket.recvfrom(65_535)
            except (TimeoutError, ConnectionError):
                continue
            answer = self._answer(data.decode())
            if answer:
                self._socket.sendto(answer.encode(), source)

    def _accept(self) -> None:
        while not self._closing:
            try:
                stream, _ = self._socket.accept()
            except (TimeoutError, OSError):
                continue
            thread = threading.Thread(target=self._stream, args=(stream,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _stream(self, stream: socket.socket) -> None:
        try:
            if self.context is not None:
                stream.settimeout(5)
                stream = self.context.wrap_socket(stream, server_side=True)
            self._streams.append(stream)
            stream.settimeout(0.05)
            pending = b""
            while not self._closing:
                try:
                    data = stream.recv(65_535)
                except TimeoutError:
                    continue
                if not data:
                    return
                pending = (pending + data).lstrip(b"\r\n")
                while b"\r\n\r\n" in pending:
                    message, _, pending = pending.partition(b"\r\n\r\n")
                    answer = self._answer(message.decode() + "\r\n\r\n")
                    if answer:
                        stream.sendall(answer.encode())
        except OSError:  # ssl's errors are some, too
            return
        finally:
            stream.close()

    def _answer(self, request: str) -> str:
        method = request.split(" ", 1)[0]
        if method not in ("REGISTER", "OPTIONS"):
            return ""
        status, more = self.refuse(request) or self._judge(method, request)
        code = int(status.split(" ", 1)[0]) if status else 0
        self.seen.append(Seen(time.monotonic(), request, code))
        if not status:
            return ""
        copied = "".join(
            f"{name}: {header(request, name)}\r\n" for name in ("Via", "From", "Call-ID", "CSeq")
        )
        to = f"To: {header(request, 'To')};tag=r1\r\n"
        return f"SIP/2.0 {status}\r\n{copied}{to}{more}Content-Length: 0\r\n\r\n"

    def _judge(self, method: str, request: str) -> tuple[str, str]:
        if method == "OPTIONS":
            return "200 OK", ""
        if not self._is_good(request):
            challenges = ""
            for algorithm in self.algorithms:
                nonce = os.urandom(8).hex()
                self._nonces[nonce] = algorithm
                challenges += (
                    f'WWW-Authenticate: Digest realm="{self.realm}", nonce="{nonce}", '
                    f'algorithm={algorithm}, qop="auth"\r\n'
                )
            return "401 Unauthorized", challenges
        wanted = header(request, "Expires")
        expires = str(self.expires_s) if self.expires_s and wanted != "0" else wanted
        contact = re.search(r"<[^>]*>", header(request, "Contact"))
        bound = f"Contact: {contact[0]};expires={expires}\r\n" if contact and wanted != "0" else ""
        return "200 OK", bound

    def _is_good(self, request: str) -> bool:
        given = header(request, "Authorization")
        values = {
            name.lower(): value.strip('"')
            for name, value in re.findall(r'(\w+)=("[^"]*"|[^,\s]+)', given)
        }
        algorithm = self._nonces.get(values.get("nonce", ""), "")
        if algorithm not in _HASHES or values.get("algorithm", "MD5") != algorithm:
            return False

        def digest(*parts: str) -> str:
            return _HASHES[algorithm](":".join(parts).encode()).hexdigest()

        method = request.split(" ", 1)[0]
        secret = digest(self.user, self.realm, self.password)
        what = digest(method, values.get("uri", ""))
        expected = digest(
            secret,
            values["nonce"],
            values.get("nc", ""),
            values.get("cnonce", ""),
            values.get("qop", ""),
            what,
        )
        return values.get("username") == self.user and values.get("response") == expected
