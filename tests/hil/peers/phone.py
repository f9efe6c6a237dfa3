# SPDX-License-Identifier: GPL-3.0-or-later
"""A telephone in plain Python: one UDP socket, any number of calls, each with RTP of its own.

It answers what a peer has to answer by itself (BYE, re-INVITE, OPTIONS, NOTIFY), and does the rest when asked:
calls, holds, takes over, refers. Every message it saw is kept.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence

from .closing import Closing
from .datagrams import Address, field, status_of
from .process import eventually
from .rtp import RtpEnd

_SDP = (
    "v=0\r\no=- 7 {version} IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n"
    "m=audio {port} RTP/AVP {formats}\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n"
    "a=ptime:20\r\na={direction}\r\n"
)
T1 = 0.5


def _tag(message: bytes, header: str) -> str:
    found = re.search(r"tag=([^;>\s]+)", field(message, header) or "")
    return found.group(1) if found else ""


def method_of(message: bytes) -> str:
    """The method of a request; empty for a response."""
    first = message.split(b" ", 1)[0].decode()
    return "" if first == "SIP/2.0" else first


def body_of(message: bytes) -> str:
    return message.partition(b"\r\n\r\n")[2].decode()


def rtp_of(message: bytes) -> Address | None:
    """Where an SDP wants RTP."""
    body = body_of(message)
    port = re.search(r"^m=audio (\d+)", body, re.MULTILINE)
    host = re.search(r"^c=IN IP4 (\S+)", body, re.MULTILINE)
    return (host.group(1), int(port.group(1))) if port and host else None


class PhoneCall:
    """One call of a `Phone`."""

    def __init__(self, phone: Phone, call_id: str, local_tag: str, rtp: RtpEnd) -> None:
        self.phone = phone
        self.call_id = call_id
        self.local_tag = local_tag
        self.remote_tag = ""
        self.remote_uri = ""
        self.local_uri = f"sip:+491701234567@127.0.0.1:{phone.address[1]}"
        self.target = ""
        self.rtp = rtp
        self.cseq = 0
        self.version = 1
        self.seen: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.invite = b""  # the one that came in
        self.ended = threading.Event()

    def sdp(
        self, direction: str = "sendrecv", formats: str = "8 0", address: str = "127.0.0.1"
    ) -> str:
        self.version += 1
        return _SDP.format(
            version=self.version,
            port=self.rtp.port,
            formats=formats,
            direction=direction,
            address=address,
        )

    def request(
        self, method: str, body: str | None = None, headers: str = "", cseq: int | None = None
    ) -> bytes:
        """A request of this dialog; a new number unless given."""
        if cseq is None:
            self.cseq += 1
            cseq = self.cseq
        to_tag = f";tag={self.remote_tag}" if self.remote_tag else ""
        lines = [
            f"{method} {self.target} SIP/2.0",
            f"Via: SIP/2.0/UDP 127.0.0.1:{self.phone.address[1]};rport;branch={self.phone.branch()}",
            "Max-Forwards: 70",
            f"From: <{self.local_uri}>;tag={self.local_tag}",
            f"To: <{self.remote_uri}>{to_tag}",
            f"Call-ID: {self.call_id}",
            f"CSeq: {cseq} {method}",
            f"Contact: <sip:phone@127.0.0.1:{self.phone.address[1]}>",
            *headers.split("\r\n")[: 100 if headers else 0],
        ]
        if body is not None and "Content-Type" not in headers:
            lines.append("Content-Type: application/sdp")
        text = body or ""
        lines += [f"Content-Length: {len(text)}", "", text]
        return "\r\n".join(lines).encode()

    def final(self, request: bytes, timeout_s: float = 5.0) -> bytes:
        """Send, repeating as RFC 3261 section 17.1 asks, until the final response is there."""
        wanted = field(request, "CSeq")
        self.phone.send(request)
        end, again, step = time.monotonic() + timeout_s, time.monotonic() + T1, T1
        while time.monotonic() < end:
            answers = [m for m in self.seen if not method_of(m) and field(m, "CSeq") == wanted]
            for message in answers:
                if status_of(message) >= 200:
                    return message
            if not answers and time.monotonic() >= again:
                self.phone.send(request)
                step *= 2
                again = time.monotonic() + step
            time.sleep(0.005)
        raise AssertionError(f"no final response to {wanted} of {self.call_id}")

    def call(self, headers: str = "", **sdp: str) -> bytes:
        """INVITE, answer, ACK; RTP flows both ways afterwards. The answer."""
        invite = self.request("INVITE", self.sdp(**sdp), headers)
        answer = self.final(invite)
        if status_of(answer) < 300:
            self.remote_tag = _tag(answer, "To")
            contact = re.search(r"<([^>]+)>", field(answer, "Contact") or "")
            self.target = contact.group(1) if contact else self.target
            number = int((field(answer, "CSeq") or "0").split()[0])
            self.phone.send(self.request("ACK", cseq=number))
            self.rtp.send_to(rtp_of(answer) or self.rtp.remote)
        return answer

    def reinvite(self, direction: str = "sendrecv", **sdp: str) -> bytes:
        """A new offer; ACKed. The answer, whatever its status."""
        answer = self.final(self.request("INVITE", self.sdp(direction, **sdp)))
        if status_of(answer) < 300:
            self.phone.send(self.request("ACK", cseq=self.cseq))
            self.rtp.send_to(rtp_of(answer) if direction in ("sendrecv", "sendonly") else None)
        return answer

    def bye(self) -> bytes:
        answer = self.final(self.request("BYE"))
        self.ended.set()
        self.rtp.send_to(None)
        return answer

    def requests(self, method: str) -> list[bytes]:
        """Requests of this method that came, repetitions left out."""
        unique: dict[str, bytes] = {}
        for message in list(self.seen):
            if method_of(message) == method:
                unique.setdefault(field(message, "Via") or "", message)
        return list(unique.values())

    def wait_request(self, method: str, count: int = 1, timeout_s: float = 5.0) -> bytes:
        """The count-th request of this method."""
        eventually(
            f"{count}. {method} at the telephone",
            lambda: len(self.requests(method)) >= count,
            timeout_s,
        )
        return self.requests(method)[count - 1]


class Phone(Closing):
    """A socket and its calls. `on_invite` decides on calls that come in; without it they are answered at once."""

    def __init__(
        self,
        remote: Address,
        *,
        play: Sequence[int] | None = None,
        wide: Sequence[int] | None = None,
        payload_type: int = 8,
    ) -> None:
        """`play` and `wide` are what `RtpEnd` plays on G.711 and on G.722."""
        self.remote = remote
        self.calls: dict[str, PhoneCall] = {}
        self.incoming: list[PhoneCall] = []
        self.on_invite: Callable[[PhoneCall, bytes], None] | None = None
        self.on_reinvite: Callable[[PhoneCall, bytes], None] | None = None
        self.acknowledges = True  # sends PRACK
        self.on_refer: Callable[[PhoneCall, bytes], None] | None = None
        self._play = play
        self._wide = wide
        self._payload_type = payload_type
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self._run_id = os.urandom(4).hex()
        self._count = itertools.count(1)
        self._stop = threading.Event()
        self._ssrc = itertools.count(int.from_bytes(os.urandom(3), "big"))
        self._thread = threading.Thread(target=self._run, name="phone", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        host, port = self._socket.getsockname()
        return host, port

    def uri(self, user: str = "+33612345678") -> str:
        return f"sip:{user}@127.0.0.1:{self.address[1]}"

    def branch(self) -> str:
        return f"z9hG4bK{self._run_id}{next(self._count)}"

    def send(self, message: bytes, to: Address | None = None) -> None:
        self._socket.sendto(message, to or self.remote)

    def new(self, user: str, *, remote_uri: str | None = None) -> PhoneCall:
        """A call to be placed with `PhoneCall.call`."""
        number = next(self._count)
        call = self._new(f"{self._run_id}-{number}@phone", f"t{number}")
        call.target = call.remote_uri = (
            remote_uri or f"sip:{user}@{self.remote[0]}:{self.remote[1]}"
        )
        return call

    def _new(self, call_id: str, tag: str) -> PhoneCall:
        rtp = RtpEnd(
            play=self._play,
            wide=self._wide,
            payload_type=self._payload_type,
            ssrc=next(self._ssrc),
        )
        call = PhoneCall(self, call_id, tag, rtp)
        self.calls[call_id] = call
        return call

    def respond(
        self,
        request: bytes,
        status: str,
        body: str | None = None,
        headers: str = "",
        *,
        tag: str | None = None,
    ) -> None:
        """A response to a request that came in."""
        call = self.calls.get(field(request, "Call-ID") or "")
        to = field(request, "To") or ""
        if "tag=" not in to and not status.startswith("100"):
            to += f";tag={tag or (call.local_tag if call else 'none')}"
        head = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        via = [line for line in head if line.lower().startswith("via:")]
        routes = [line for line in head if line.lower().startswith("record-route:")]
        lines = [
            f"SIP/2.0 {status}",
            *via,
            *routes,
            f"From: {field(request, 'From')}",
            f"To: {to}",
            f"Call-ID: {field(request, 'Call-ID')}",
            f"CSeq: {field(request, 'CSeq')}",
            f"Contact: <sip:phone@127.0.0.1:{self.address[1]}>",
            *headers.split("\r\n")[: 100 if headers else 0],
        ]
        if body is not None:
            lines.append("Content-Type: application/sdp")
        lines += [f"Content-Length: {len(body or '')}", "", body or ""]
        self.send("\r\n".join(lines).encode())

    def answer(self, call: PhoneCall, **sdp: str) -> None:
        """200 to the INVITE that came in; RTP flows both ways."""
        self.respond(call.invite, "200 OK", call.sdp(**sdp))
        call.rtp.send_to(rtp_of(call.invite))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._socket.recv(65535)
            except (TimeoutError, ConnectionError):
                continue
            except OSError:
                return
            self._on(message)

    def _on(self, message: bytes) -> None:
        call = self.calls.get(field(message, "Call-ID") or "")
        method = method_of(message)
        if call is None:
            if method != "INVITE":
                if method and method != "ACK":
                    self.respond(message, "481 Call/Transaction Does Not Exist")
                return
            call = self._invited(message)
        repeated = message in call.seen
        call.seen.append(message)
        if (
            not method
            and field(message, "RSeq")
            and self.acknowledges
            and message not in call.acknowledged
        ):
            call.acknowledged.append(message)
            self._acknowledge(call, message)
        if not method or method == "ACK" or (repeated and method == "INVITE"):
            return
        if method == "INVITE":
            if call.invite == message:
                if self.on_invite is not None:
                    self.on_invite(call, message)
                else:
                    self.answer(call)
            elif self.on_reinvite is not None:
                self.on_reinvite(call, message)
            else:
                self.answer_reinvite(call, message)
        elif method == "BYE":
            self.respond(message, "200 OK")
            call.rtp.send_to(None)
            call.ended.set()
        elif method == "CANCEL":
            self.respond(message, "200 OK")
            self.respond(call.invite, "487 Request Terminated")
            call.ended.set()
        elif method == "REFER" and self.on_refer is not None:
            self.on_refer(call, message)
        elif method == "REFER":
            self.respond(message, "603 Decline")
        else:
            self.respond(message, "200 OK")

    def _acknowledge(self, call: PhoneCall, message: bytes) -> None:
        """PRACK of a reliable provisional response (RFC 3262 section 4)."""
        call.remote_tag = _tag(message, "To")
        contact = re.search(r"<([^>]+)>", field(message, "Contact") or "")
        call.target = contact.group(1) if contact else call.target
        rack = f"RAck: {field(message, 'RSeq')} {field(message, 'CSeq')}"
        self.send(call.request("PRACK", headers=rack))

    def _invited(self, message: bytes) -> PhoneCall:
        call = self._new(field(message, "Call-ID") or "", f"u{next(self._count)}")
        call.invite = message
        call.remote_tag = _tag(message, "From")
        call.remote_uri = (re.search(r"<([^>]+)>", field(message, "From") or "") or ["", ""])[1]
        call.local_uri = (re.search(r"<([^>]+)>", field(message, "To") or "") or ["", ""])[1]
        call.target = (re.search(r"<([^>]+)>", field(message, "Contact") or "") or ["", ""])[1]
        self.incoming.append(call)
        return call

    def answer_reinvite(self, call: PhoneCall, message: bytes) -> None:
        found = re.search(r"^a=(sendonly|recvonly|inactive)\r?$", body_of(message), re.MULTILINE)
        theirs = found.group(1) if found else "sendrecv"
        ours = {"sendonly": "recvonly", "recvonly": "sendonly"}.get(theirs, theirs)
        formats = (
            re.search(r"^m=audio \d+ RTP/AVP (.*?)\r?$", body_of(message), re.MULTILINE) or "  "
        )[1]
        ours_formats = " ".join(f for f in formats.split() if f in ("0", "8")) or "8"
        self.respond(message, "200 OK", call.sdp(ours, ours_formats.split()[0]))
        call.rtp.payload_type = int(ours_formats.split()[0])
        call.rtp.send_to(rtp_of(message) if ours in ("sendrecv", "sendonly") else None)

    def wait_incoming(self, count: int = 1, timeout_s: float = 5.0) -> PhoneCall:
        """The count-th call that came in."""
        eventually(
            f"{count} calls at the telephone", lambda: len(self.incoming) >= count, timeout_s
        )
        return self.incoming[count - 1]

    def close(self) -> None:
        for call in self.calls.values():
            call.rtp.stop()
        self._stop.set()
        self._thread.join(2)
        self._socket.close()
