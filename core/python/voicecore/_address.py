# SPDX-License-Identifier: GPL-3.0-or-later
"""A SIP address that does not print itself."""

from __future__ import annotations

import re

# The addr-spec of a name-addr or bare URI (RFC 3261 section 25.1), without display name or header
# parameters. A display name is personal data and of no use here.
_ADDR_SPEC = re.compile(r"(sips?|tel):([^<>\s;?]*)([^<>\s]*)", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?$")


class Address:
    """Who called, or who was called.

    A phone number is personal data: ``repr()``, ``str()`` and formatting give ``sip:…@host``, so
    that it cannot slip into a log. Ask for `user` or `uri` where the number itself is needed.
    """

    __slots__ = ("_host", "_scheme", "_uri", "_user")

    def __init__(self, text: str) -> None:
        """Takes a SIP URI, or a From or To header with one in it. Never raises."""
        self._scheme, self._user, self._host, self._uri = "sip", "", "", ""
        found = _ADDR_SPEC.search(text.partition("<")[2] or text)
        if found is None:
            return
        self._scheme, rest = found[1].lower(), found[2]
        self._uri = f"{self._scheme}:{rest}{found[3] if '<' in text else ''}"
        if self._scheme == "tel":
            self._user = rest
            return
        userinfo, at, hostport = rest.rpartition("@")
        # The user part may hold ";" and "?" (RFC 3261 section 25.1, user-unreserved).
        if not at and "@" in found[3]:
            whole = rest + found[3]
            userinfo, _, hostport = whole.rpartition("@")
            hostport = re.split(r"[;?]", hostport, maxsplit=1)[0]
            self._uri = f"{self._scheme}:{whole}"
        self._user = userinfo.partition(":")[0]
        host = _HOST_PORT.match(hostport)
        self._host = (host[1] if host else hostport).strip("[]").lower()

    @property
    def user(self) -> str:
        """The user part: a phone number or a name. Empty when there is none. Personal data."""
        return self._user

    @property
    def host(self) -> str:
        """Host name or address without brackets and port; empty for tel: URIs."""
        return self._host

    @property
    def uri(self) -> str:
        """The whole URI without display name. Personal data."""
        return self._uri

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._uri == other._uri

    def __hash__(self) -> int:
        return hash(self._uri)

    def __str__(self) -> str:
        if self._scheme == "tel":
            return "tel:…"
        return f"{self._scheme}:…@{self._host}" if self._user else f"{self._scheme}:{self._host}"

    def __repr__(self) -> str:
        return f"<Address {self}>"

    def __reduce__(self) -> str:
        raise TypeError("an Address is not pickled: it would carry the number along")
