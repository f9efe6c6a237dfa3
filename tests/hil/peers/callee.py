# SPDX-License-Identifier: GPL-3.0-or-later
"""A telephone that the core calls, in plain datagrams."""

from __future__ import annotations

import re

from .datagrams import Address, Datagrams, field

_COPIED = (b"Via", b"Record-Route", b"From", b"Call-ID", b"CSeq")


class Callee:
    """Answers one INVITE as it is told to."""

    def __init__(self, sip: Datagrams, *, timeout_s: float = 5.0) -> None:
        self._sip = sip
        invite = sip.receive(timeout_s)
        assert invite is not None, "no INVITE came"
        assert invite.startswith(b"INVITE"), invite
        self.invite = invite
        via = re.search(r"SIP/2.0/UDP ([\d.]+):(\d+)", field(invite, "Via") or "")
        port = re.search(rb"m=audio (\d+)", invite)
        assert via, invite
        assert port, invite
        sip.remote = (via.group(1), int(via.group(2)))
        self.remote_rtp: Address = ("127.0.0.1", int(port.group(1)))

    def respond(self, status: str, body: str = "") -> None:
        """A response such as ``180 Ringing``, with SDP if there is a body."""
        host, port = self._sip.address
        lines = [
            f"SIP/2.0 {status}".encode(),
            *(
                line
                for line in self.invite.split(b"\r\n")
                if line.split(b":")[0].strip() in _COPIED
            ),
            f"To: {field(self.invite, 'To')};tag=callee1".encode(),
            f"Contact: <sip:callee@{host}:{port}>".encode(),
        ]
        content = body.encode()
        if content:
            lines.append(b"Content-Type: application/sdp")
        lines += [f"Content-Length: {len(content)}".encode(), b"", content]
        self._sip.send(b"\r\n".join(lines))

    def answer(self, body: str) -> None:
        """200 with SDP; waits for the ACK."""
        self.respond("200 OK", body)
        ack = self._sip.receive(3)
        assert ack is not None, "no ACK came"
        assert ack.startswith(b"ACK"), ack
