# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP messages as text: parsed leniently, written plainly (RFC 3261 §7)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMPACT = {  # RFC 3261 §7.3.3
    "v": "via",
    "f": "from",
    "t": "to",
    "i": "call-id",
    "m": "contact",
    "l": "content-length",
    "c": "content-type",
    "k": "supported",
    "s": "subject",
    "e": "content-encoding",
}
_TAG = re.compile(r";\s*tag\s*=\s*([^;>\s]+)", re.IGNORECASE)
_BRANCH = re.compile(r";\s*branch\s*=\s*([^;,\s]+)", re.IGNORECASE)
_URI = re.compile(r"<([^>]*)>")


class SipParseError(ValueError):
    """The datagram is not a SIP message."""


@dataclass
class SipMessage:
    """A request or a response. Header order is kept; names compare without case."""

    start: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def is_response(self) -> bool:
        return self.start.startswith("SIP/2.0 ")

    @property
    def method(self) -> str:
        """Method of a request; of a response, the one in CSeq."""
        return self.cseq[1] if self.is_response else self.start.split(" ", 1)[0]

    @property
    def status(self) -> int:
        """Status of a response, 0 for a request."""
        return int(self.start.split(" ", 2)[1]) if self.is_response else 0

    @property
    def reason(self) -> str:
        parts = self.start.split(" ", 2)
        return parts[2] if self.is_response and len(parts) == 3 else ""

    def get(self, name: str) -> str:
        """First value of a header, "" if there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for key, value in self.headers if key.lower() == wanted]

    @property
    def cseq(self) -> tuple[int, str]:
        """Number and method of CSeq; (0, "") if it is missing or malformed."""
        parts = self.get("CSeq").split()
        if len(parts) != 2 or not parts[0].isdigit():
            return 0, ""
        return int(parts[0]), parts[1]

    @property
    def call_id(self) -> str:
        return self.get("Call-ID")

    @property
    def from_tag(self) -> str:
        return _first(_TAG, self.get("From"))

    @property
    def to_tag(self) -> str:
        return _first(_TAG, self.get("To"))

    @property
    def branch(self) -> str:
        return _first(_BRANCH, self.get("Via"))

    @property
    def contact_uri(self) -> str:
        """URI of Contact, without its angle brackets."""
        value = self.get("Contact")
        return _first(_URI, value) or value.split(";", 1)[0].strip()

    def encode(self) -> bytes:
        """The message as sent; Content-Length is set from the body."""
        lines = [self.start]
        lines += [f"{key}: {value}" for key, value in self.headers if key != "Content-Length"]
        lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def parse(datagram: bytes) -> SipMessage:
    """Read one datagram. Raises SipParseError if it is no SIP message."""
    head, _, body = datagram.partition(b"\r\n\r\n")
    try:
        lines = head.decode("utf-8").split("\r\n")
    except UnicodeDecodeError as error:
        raise SipParseError(f"not UTF-8: {error}") from error
    start = lines[0].strip()
    words = start.split(" ")
    if start.startswith("SIP/2.0 "):
        if len(words) < 2 or len(words[1]) != 3 or not words[1].isdigit():
            raise SipParseError("status line without a status of three digits")
    elif len(words) != 3 or words[2] != "SIP/2.0":
        raise SipParseError("neither a request line nor a status line")
    message = SipMessage(start, body=body)
    for line in lines[1:]:
        if line[:1] in (" ", "\t") and message.headers:  # folded header, §7.3.1
            key, value = message.headers[-1]
            message.headers[-1] = (key, f"{value} {line.strip()}")
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise SipParseError("header line without a colon")
        name = name.strip()
        message.headers.append((_COMPACT.get(name.lower(), name), value.strip()))
    for name in ("Via", "From", "To", "Call-ID", "CSeq"):
        if not message.get(name):
            raise SipParseError(f"no {name} header")
    length = message.get("Content-Length")
    if length.isdigit():
        message.body = body[: int(length)]
    return message
