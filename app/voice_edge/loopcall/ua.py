# SPDX-License-Identifier: GPL-3.0-or-later
"""The SIP side of one outgoing call, as a state machine without I/O (RFC 3261).

``invite``, ``cancel``, ``bye`` start things; ``receive`` takes a datagram, ``advance`` fires timers
(``next_timer`` says when). What is to be sent gathers in ``outbox``, what happened in ``events``;
the owner empties both. UDP only, loose routing only, no digest.
"""

from __future__ import annotations

import random
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from . import sdp
from .laws import PCMA, PCMU, Law
from .sip_message import SipMessage, SipParseError, parse
from .transactions import LIFETIME, T2, Retransmitter

Address = tuple[str, int]

_ALLOW = "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO"
_NUMERIC_HOST = re.compile(r"sips?:(?:[^@>]*@)?(\d+\.\d+\.\d+\.\d+)(?::(\d+))?")


@dataclass(frozen=True)
class Progress:
    """A provisional answer (100, 180, 183 …)."""

    status: int


@dataclass(frozen=True)
class Answered:
    """200: the call stands; ``media`` is the peer's answer."""

    media: sdp.AudioDescription


@dataclass(frozen=True)
class Renegotiated:
    """The peer's re-INVITE was accepted with these terms."""

    media: sdp.AudioDescription


@dataclass(frozen=True)
class Ended:
    """The call is over. ``status`` is the final one that ended it (200 after BYE, 408 for none)."""

    status: int
    reason: str
    by_remote: bool


Event = Progress | Answered | Renegotiated | Ended


class UserAgent:
    """One call to ``peer`` from ``local`` (the address bound), its media at ``rtp_port``."""

    def __init__(
        self,
        local: Address,
        peer: Address,
        rtp_port: int,
        *,
        codecs: Sequence[Law] = (PCMA, PCMU),
        user: str = "caller",
        seed: int | None = None,
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - identifiers of test calls, no secrets
        self._local = local
        self._peer = peer
        self._rtp_port = rtp_port
        self._codecs = tuple(codecs)
        self._user = user
        self.state = "idle"  # calling, proceeding, confirmed, ending, ended
        self.outbox: list[tuple[bytes, Address]] = []
        self.events: list[Event] = []
        self.call_id = f"{self._token()}@{local[0]}"
        self._from = f"<sip:{user}@{local[0]}:{local[1]}>;tag={self._token()}"
        self._to = ""
        self._target = ""
        self._routes: list[str] = []
        self._cseq = 0
        self._sdp_version = 1
        self._invite: SipMessage | None = None
        self._ack: tuple[bytes, Address] | None = None
        self._ack_branch = ""
        self._cancel_wanted = False
        self._cancel_deadline: float | None = None
        self._clients: dict[tuple[str, str], Retransmitter] = {}  # by branch and method
        self._reinvite_answer: Retransmitter | None = None
        self._answers: OrderedDict[tuple[str, str], tuple[bytes, Address]] = OrderedDict()

    # What the caller does

    def invite(self, uri: str, now: float, *, body: bytes | None = None) -> None:
        """Call ``uri`` (sip:user@host) with our offer, or with ``body`` if given."""
        self._target, self._to = uri, f"<{uri}>"
        offer = self._describe("sendrecv") if body is None else body
        request = self._request("INVITE", offer)
        self._invite = request
        self.state = "calling"
        self._start(request, LIFETIME, now)

    def cancel(self, now: float) -> None:
        """Give up before the answer. Without a provisional answer the CANCEL waits (§9.1)."""
        if self.state == "calling":
            self._cancel_wanted = True
            self._cancel_deadline = now + LIFETIME
        elif self.state == "proceeding":
            self._send_cancel(now)

    def bye(self, now: float) -> None:
        """Hang up (no effect unless the call stands)."""
        if self.state != "confirmed":
            return
        self.state = "ending"
        self._stop_reinvite()
        self._start(self._request("BYE"), T2, now)

    # What comes in

    def receive(self, datagram: bytes, source: Address, now: float) -> None:
        """Take one datagram; what is not SIP or not of this call is dropped or refused."""
        try:
            message = parse(datagram)
        except SipParseError:
            return
        if message.is_response:
            self._response(message, now)
        else:
            self._incoming(message, source, now)

    def advance(self, now: float) -> None:
        """Fire the timers that are due."""
        for key, client in list(self._clients.items()):
            if client.advance(now):
                self.outbox.append((client.datagram, client.to))
            elif client.timed_out:
                del self._clients[key]
                self._unanswered(key[1])
        answer = self._reinvite_answer
        if answer is not None and answer.advance(now):
            self.outbox.append((answer.datagram, answer.to))
        if self._cancel_deadline is not None and now >= self._cancel_deadline:
            self._end(487, "no answer to CANCEL", by_remote=False)

    def next_timer(self) -> float | None:
        """When ``advance`` is due, None if nothing is pending."""
        times = [client.next_timer() for client in self._clients.values()]
        if self._reinvite_answer is not None:
            times.append(self._reinvite_answer.next_timer())
        times.append(self._cancel_deadline)
        return min((time for time in times if time is not None), default=None)

    # Responses

    def _response(self, message: SipMessage, now: float) -> None:
        if message.call_id != self.call_id:
            return
        method, status = message.cseq[1], message.status
        if method == "INVITE":
            self._invite_response(message, now)
            return
        key = (message.branch, method)
        client = self._clients.get(key)
        if client is None:
            return
        if status < 200:
            client.slow_down()
            return
        del self._clients[key]
        if method == "BYE":
            self._end(status, message.reason, by_remote=False)

    def _invite_response(self, message: SipMessage, now: float) -> None:
        invite = self._invite
        if invite is None or message.branch != invite.branch:
            return
        client = self._clients.get((invite.branch, "INVITE"))
        status = message.status
        if client is None:
            # The final answer again: its ACK was lost (§13.2.2.4, §17.1.1.2).
            if status >= 200 and self._ack is not None:
                self.outbox.append(self._ack)
            return
        if status < 200:
            client.stop()
            if self.state == "calling":
                self.state = "proceeding"
            if status > 100:
                self.events.append(Progress(status))
            if self._cancel_wanted:
                self._cancel_wanted = False
                self._send_cancel(now)
            return
        del self._clients[invite.branch, "INVITE"]
        if status >= 300:
            self._acknowledge_failure(invite, message)
            self._end(status, message.reason, by_remote=True)
        else:
            self._accepted(message, now)

    def _accepted(self, message: SipMessage, now: float) -> None:
        cancelled = self._cancel_wanted or self._cancel_deadline is not None
        self._cancel_wanted, self._cancel_deadline = False, None
        self._to = message.get("To")
        self._target = message.contact_uri or self._target
        routes = ", ".join(message.get_all("Record-Route"))
        self._routes = [route.strip() for route in reversed(routes.split(","))] if routes else []
        self.state = "confirmed"
        ack = self._request("ACK", cseq=message.cseq[0])
        self._ack = (ack.encode(), self._next_hop())
        self.outbox.append(self._ack)
        if cancelled:  # the 200 crossed our CANCEL (§9.1)
            self.bye(now)
            return
        try:
            media = sdp.parse(message.body)
            media.first_codec()
        except sdp.SdpError:
            self.bye(now)
            return
        self.events.append(Answered(media))

    def _acknowledge_failure(self, invite: SipMessage, message: SipMessage) -> None:
        ack = SipMessage(invite.start.replace("INVITE", "ACK", 1))
        ack.headers = [
            ("Via", invite.get("Via")),
            ("Max-Forwards", "70"),
            ("From", invite.get("From")),
            ("To", message.get("To")),
            ("Call-ID", self.call_id),
            ("CSeq", f"{invite.cseq[0]} ACK"),
        ]
        self._ack = (ack.encode(), self._peer)
        self.outbox.append(self._ack)

    def _unanswered(self, method: str) -> None:
        if method in ("INVITE", "BYE"):
            self._end(408, f"no answer to {method}", by_remote=False)

    def _send_cancel(self, now: float) -> None:
        invite = self._invite
        if invite is None:
            return
        self._cancel_deadline = now + LIFETIME
        request = SipMessage(invite.start.replace("INVITE", "CANCEL", 1))
        kept = ("Via", "Max-Forwards", "From", "To", "Call-ID")
        request.headers = [(name, invite.get(name)) for name in kept]
        request.headers.append(("CSeq", f"{invite.cseq[0]} CANCEL"))
        self._start(request, T2, now)

    # Requests of the peer

    def _incoming(self, message: SipMessage, source: Address, now: float) -> None:
        method = message.method
        repeated = self._answers.get((message.branch, method))
        if repeated is not None:
            self.outbox.append(repeated)
            return
        in_dialog = message.call_id == self.call_id and f"tag={message.to_tag}" in self._from
        if method == "ACK":
            if in_dialog and message.branch != self._ack_branch:
                self._ack_branch = message.branch
                self._stop_reinvite()
        elif method == "OPTIONS":
            self._answer(message, source, 200, "OK")
        elif not in_dialog or self.state not in ("confirmed", "ending"):
            self._answer(message, source, 481, "Call/Transaction Does Not Exist")
        elif method == "BYE":
            self._answer(message, source, 200, "OK")
            self._end(200, "BYE", by_remote=True)
        elif method == "INVITE":
            self._reinvite(message, source, now)
        elif method == "INFO":
            self._answer(message, source, 200, "OK")
        else:
            self._answer(message, source, 405, "Method Not Allowed")

    def _reinvite(self, message: SipMessage, source: Address, now: float) -> None:
        media: sdp.AudioDescription | None = None
        if message.body:
            try:
                media = sdp.parse(message.body)
                media.first_codec()
            except sdp.SdpError:
                self._answer(message, source, 488, "Not Acceptable Here")
                return
        self._sdp_version += 1
        self._target = message.contact_uri or self._target
        body = self._describe(media.answer_direction if media else "sendrecv")
        datagram = self._answer(message, source, 200, "OK", body)
        self._reinvite_answer = Retransmitter(datagram, source, now, T2)
        if media is not None:
            self.events.append(Renegotiated(media))

    def _answer(
        self, message: SipMessage, source: Address, status: int, reason: str, body: bytes = b""
    ) -> bytes:
        to = message.get("To")
        if not message.to_tag:
            to = f"{to};tag={self._token()}"
        answer = SipMessage(f"SIP/2.0 {status} {reason}", body=body)
        answer.headers = [("Via", value) for value in message.get_all("Via")]
        answer.headers += [("Record-Route", value) for value in message.get_all("Record-Route")]
        answer.headers += [
            ("From", message.get("From")),
            ("To", to),
            ("Call-ID", message.call_id),
            ("CSeq", message.get("CSeq")),
            ("Contact", self._contact()),
            ("Allow", _ALLOW),
        ]
        if body:
            answer.headers.append(("Content-Type", "application/sdp"))
        datagram = answer.encode()
        self.outbox.append((datagram, source))
        self._answers[message.branch, message.method] = (datagram, source)
        while len(self._answers) > 32:
            self._answers.popitem(last=False)
        return datagram

    # Helpers

    def _request(self, method: str, body: bytes = b"", cseq: int | None = None) -> SipMessage:
        if cseq is None:
            self._cseq += 1
            cseq = self._cseq
        branch = f"z9hG4bK{self._token()}"
        request = SipMessage(f"{method} {self._target} SIP/2.0", body=body)
        request.headers = [
            ("Via", f"SIP/2.0/UDP {self._local[0]}:{self._local[1]};rport;branch={branch}"),
            *(("Route", route) for route in self._routes),
            ("Max-Forwards", "70"),
            ("From", self._from),
            ("To", self._to),
            ("Call-ID", self.call_id),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", self._contact()),
            ("Allow", _ALLOW),
            ("User-Agent", "voice-edge-loopcall"),
        ]
        if body:
            request.headers.append(("Content-Type", "application/sdp"))
        return request

    def _start(self, request: SipMessage, longest: float, now: float) -> None:
        hop = self._peer if request.method in ("INVITE", "CANCEL") else self._next_hop()
        client = Retransmitter(request.encode(), hop, now, longest)
        self._clients[request.branch, request.method] = client
        self.outbox.append((client.datagram, client.to))

    def _next_hop(self) -> Address:
        """First route, else the peer's contact; the address first called if that is a name."""
        found = _NUMERIC_HOST.search(self._routes[0] if self._routes else self._target)
        return (found.group(1), int(found.group(2) or 5060)) if found else self._peer

    def _describe(self, direction: str) -> bytes:
        return sdp.write(
            self._local[0],
            self._rtp_port,
            self._codecs,
            version=self._sdp_version,
            direction=direction,
        )

    def _contact(self) -> str:
        return f"<sip:{self._user}@{self._local[0]}:{self._local[1]}>"

    def _stop_reinvite(self) -> None:
        if self._reinvite_answer is not None:
            self._reinvite_answer.stop()
            self._reinvite_answer = None

    def _end(self, status: int, reason: str, *, by_remote: bool) -> None:
        if self.state == "ended":
            return
        self.state = "ended"
        self._cancel_deadline = None
        self._stop_reinvite()
        for key in [key for key in self._clients if key[1] != "CANCEL"]:
            del self._clients[key]
        self.events.append(Ended(status, reason, by_remote))

    def _token(self) -> str:
        return f"{self._random.getrandbits(64):016x}"
