# SPDX-License-Identifier: GPL-3.0-or-later
"""The client's side of digest authentication (RFC 7616, RFC 8760), written from the standard and not from the core."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_HASHES = {"MD5": "md5", "SHA-256": "sha256"}


@dataclass(frozen=True)
class Challenge:
    """One WWW-Authenticate."""

    realm: str
    nonce: str
    algorithm: str
    stale: bool

    def answer(
        self,
        user: str,
        password: str,
        *,
        uri: str = "sip:agent@127.0.0.1",
        count: int = 1,
        method: str = "INVITE",
    ) -> str:
        """The Authorization header."""

        def digest(*parts: str) -> str:
            return hashlib.new(_HASHES[self.algorithm], ":".join(parts).encode()).hexdigest()

        nc, cnonce = f"{count:08x}", "0a4f113b"
        response = digest(
            digest(user, self.realm, password),
            self.nonce,
            nc,
            cnonce,
            "auth",
            digest(method, uri),
        )
        return (
            f'Authorization: Digest username="{user}", realm="{self.realm}", nonce="{self.nonce}", '
            f'uri="{uri}", response="{response}", algorithm={self.algorithm}, cnonce="{cnonce}", '
            f"qop=auth, nc={nc}"
        )


def challenges(response: bytes) -> list[Challenge]:
    """What a 401 asks for, in order."""
    found = []
    for line in re.findall(r"^WWW-Authenticate:\s*Digest (.*?)\r$", response.decode(), re.M | re.I):
        fields = dict(re.findall(r'(\w+)="?([^",]*)"?', line))
        assert fields["qop"] == "auth", line
        found.append(
            Challenge(
                fields["realm"], fields["nonce"], fields["algorithm"], fields.get("stale") == "true"
            )
        )
    return found
