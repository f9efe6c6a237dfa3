# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP over plain UDP datagrams: requests written byte for byte, so that they can be wrong."""

from __future__ import annotations

import itertools
import os
import re
import socket
import time

from .closing import Closing

Address = tuple[str, int]

SDP = (
    "v=0\r\n"
    "o=- 1 1 IN IP4 127.0.0.1\r\n"
    "s=-\r\n"
    "c=IN IP4 127.0.0.1\r\n"
    "t=0 0\r\n"
    "m=audio {port} RTP/AVP {formats}\r\n"
    "a=rtpmap:8 PCMA/8000\r\n"
    "a=rtpmap:0 PCMU/8000\r\n"
    "a=rtpmap:101 telephone-event/8000\r\n"
    "a=fmtp:101 0-16\r\n"
    "a=ptime:20\r\n"
    "a=sendrecv\r\n"
)


class Datagrams(Closing):
    """A UDP socket that speaks SIP to one address."""

    def __init__(self, remote: Address, *, host: str = "127.0.0.1") -> None:
        self.remote = remote
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._count = itertools.count(1)
        self._run = os.urandom(4).hex()

    @property
    def address(self) -> Address:
        host, port = self._socket.getsockname()
        return host, port

    def send(self, datagram: bytes) -> None:
        self._socket.sendto(datagram, self.remote)

    def receive(self, timeout_s: float) -> bytes | None:
        """The next datagram, or None when none comes in time."""
        self._socket.settimeout(max(timeout_s, 0.0001))
        try:
            return self._socket.recv(65535)
        except (TimeoutError, ConnectionRefusedError):
            return None

    def drain(self) -> int:
        """Throw away what has arrived; how many there were."""
        count = 0
        while self.receive(0) is not None:
            count += 1
        return count

    def request(
        self,
        method: str,
        *,
        user: str = "agent",
        call_id: str | None = None,
        branch: str | None = None,
        from_tag: str = "a1",
        to_tag: str | None = None,
        cseq: int = 1,
        body: str | None = None,
        headers: str = "",
        request_uri: str | None = None,
    ) -> bytes:
        """A well-formed request; a fresh branch and Call-ID unless given."""
        number = next(self._count)
        host, port = self.address
        target = request_uri or f"sip:{user}@{self.remote[0]}:{self.remote[1]}"
        content = (body or "").encode("utf-8", "surrogateescape")
        lines = [
            f"{method} {target} SIP/2.0",
            f"Via: SIP/2.0/UDP {host}:{port};rport;branch={branch or f'z9hG4bK{self._run}{number}'}",
            "Max-Forwards: 70",
            f"From: <sip:+491701234567@{host}:{port}>;tag={from_tag}",
            f"To: <sip:{user}@{self.remote[0]}:{self.remote[1]}>"
            + (f";tag={to_tag}" if to_tag else ""),
            f"Call-ID: {call_id or f'{self._run}-{number}@{host}'}",
            f"CSeq: {cseq} {method}",
            f"Contact: <sip:+491701234567@{host}:{port}>",
        ]
        if headers:
            lines.append(headers.rstrip("\r\n"))
        if body is not None:
            lines.append("Content-Type: application/sdp")
        lines += [f"Content-Length: {len(content)}", "", ""]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + content

    def invite(self, *, rtp_port: int = 40000, formats: str = "8 0 101", **more: str) -> bytes:
        """An INVITE with an ordinary offer."""
        body = more.pop("body", None) or SDP.format(port=rtp_port, formats=formats)
        return self.request("INVITE", body=body, **more)  # type: ignore[arg-type]

    def alive(self, timeout_s: float = 3.0) -> int:
        """Status of the answer to an OPTIONS of our own; AssertionError when none comes.

        Sent again every 0.5 s as RFC 3261 section 17.1.2 would.
        """
        call_id = f"options-{self._run}-{next(self._count)}"
        ping = self.request("OPTIONS", call_id=call_id)
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            self.send(ping)
            until = min(end, time.monotonic() + 0.5)
            while (left := until - time.monotonic()) > 0:
                answer = self.receive(left)
                if answer is None:
                    break
                if call_id.encode() in answer:
                    return status_of(answer)
        raise AssertionError(f"no answer to OPTIONS from {self.remote} within {timeout_s} s")

    def answer_to(
        self, request: bytes, timeout_s: float = 3.0, *, final: bool = True
    ) -> bytes | None:
        """Send and return the (final) response with the same Call-ID and CSeq; None when none comes."""
        wanted = field(request, "Call-ID"), field(request, "CSeq")
        self.send(request)
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            answer = self.receive(left)
            if answer is None:
                return None
            if (field(answer, "Call-ID"), field(answer, "CSeq")) != wanted:
                continue
            if status_of(answer) >= (200 if final else 100):
                return answer
        return None

    def close(self) -> None:
        self._socket.close()


def status_of(response: bytes) -> int:
    """Status code of a response; 0 for anything else."""
    found = re.match(rb"SIP/2\.0 (\d{3})", response)
    return int(found.group(1)) if found else 0


def field(message: bytes, name: str) -> str | None:
    """First value of a header field, as sent."""
    pattern = rb"^" + re.escape(name).encode() + rb"\s*:\s*(.*?)\r?$"
    found = re.search(pattern, message, re.MULTILINE | re.IGNORECASE)
    return found.group(1).decode("utf-8", "replace") if found else None
