# SPDX-License-Identifier: GPL-3.0-or-later
"""SRTP and SRTCP of a peer (RFC 3711, RFC 6188, RFC 7714) on `cryptography`'s AES: no code of ours or libsrtp's.

One `Half` is one direction. Its roll-over counter is simple: packets are sent and received nearly in order.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


@dataclass(frozen=True)
class Suite:
    """A crypto suite by its numbers of octets."""

    name: str
    key: int
    salt: int
    tag: int  # of RTP; RTCP has 10, or 16 with GCM
    gcm: bool = False


SUITES = {
    suite.name: suite
    for suite in (
        Suite("AES_CM_128_HMAC_SHA1_80", 16, 14, 10),
        Suite("AES_CM_128_HMAC_SHA1_32", 16, 14, 4),
        Suite("AES_256_CM_HMAC_SHA1_80", 32, 14, 10),
        Suite("AES_256_CM_HMAC_SHA1_32", 32, 14, 4),
        Suite("AEAD_AES_128_GCM", 16, 12, 16, gcm=True),
        Suite("AEAD_AES_256_GCM", 32, 12, 16, gcm=True),
    )
}


class Forged(Exception):
    """A tag that does not fit."""


def counter_mode(key: bytes, iv: bytes, text: bytes) -> bytes:
    """AES-CM from `iv` on."""
    return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(text)


def mixed(octets: bytes, number: int) -> bytes:
    """`octets` with a number of the same length XORed onto it."""
    return (int.from_bytes(octets, "big") ^ number).to_bytes(len(octets), "big")


def session_key(master: bytes, salt: bytes, label: int, length: int) -> bytes:
    """RFC 3711 section 4.3.1, key derivation rate 0."""
    start = mixed(salt.ljust(14, b"\0"), label << 48) + b"\0\0"
    return counter_mode(master, start, bytes(length))


@dataclass
class Half:
    """Keys and counters of one direction. `mki` is appended to packets sent, and taken off those received."""

    suite: Suite
    master: bytes  # key and salt
    mki: bytes = b""
    highest: dict[int, int] = field(default_factory=dict)  # index by SSRC
    rtcp_index: int = 0

    @classmethod
    def fresh(cls, suite: str, mki: bytes = b"") -> Half:
        """With a random key."""
        chosen = SUITES[suite]
        return cls(chosen, os.urandom(chosen.key + chosen.salt), mki)

    @classmethod
    def from_line(cls, line: str) -> Half:
        """From the value of an `a=crypto` line."""
        _, suite, keys = line.split()[:3]
        text = keys.removeprefix("inline:").split("|")[0]
        return cls(SUITES[suite], base64.b64decode(text))

    def line(self, tag: int = 1, more: str = "") -> str:
        """The value of our `a=crypto` line."""
        return (
            f"{tag} {self.suite.name} inline:{base64.b64encode(self.master).decode()}{more}".strip()
        )

    def _derive(self, label: int, length: int) -> bytes:
        key, salt = self.master[: self.suite.key], self.master[self.suite.key :]
        return session_key(key, salt, label, length)

    def _sum(self, label: int, data: bytes, octets: int) -> bytes:
        return hmac.digest(self._derive(label, 20), data, "sha1")[:octets]

    def _crypt(self, labels: int, ssrc: int, index: int, text: bytes) -> bytes:
        key = self._derive(labels, self.suite.key)
        salt = self._derive(labels + 2, 14)
        return counter_mode(key, mixed(salt + b"\0\0", (ssrc << 64) | (index << 16)), text)

    def _gcm(self, labels: int, ssrc: int, index: int) -> tuple[AESGCM, bytes]:
        key = self._derive(labels, self.suite.key)
        salt = self._derive(labels + 2, 12)
        return AESGCM(key), mixed(salt, (ssrc << 48) | index)

    def index_of(self, ssrc: int, sequence: int) -> int:
        """The index nearest to the highest of this SSRC that ends in this number."""
        highest = self.highest.get(ssrc, sequence)
        near = [(highest & ~0xFFFF) + turn + sequence for turn in (-0x10000, 0, 0x10000)]
        return min((n for n in near if n >= 0), key=lambda n: abs(n - highest))

    def protect(self, packet: bytes) -> bytes:
        """An RTP packet, encrypted and with its tag."""
        header, text, ssrc, index = self._parts(packet)
        roc = struct.pack("!I", index >> 16)
        if self.suite.gcm:
            gcm, iv = self._gcm(0, ssrc, index)
            return header + gcm.encrypt(iv, text, header) + self.mki
        body = header + self._crypt(0, ssrc, index, text)
        return body + self.mki + self._sum(1, body + roc, self.suite.tag)

    def open(self, packet: bytes) -> bytes:
        """The RTP packet in an SRTP packet. Raises Forged."""
        behind = len(self.mki) + (0 if self.suite.gcm else self.suite.tag)
        body = packet[: len(packet) - behind]
        header, text, ssrc, index = self._parts(body)
        roc = struct.pack("!I", index >> 16)
        if self.suite.gcm:
            gcm, iv = self._gcm(0, ssrc, index)
            try:
                return header + gcm.decrypt(iv, text, header)
            except InvalidTag:
                raise Forged from None
        if not hmac.compare_digest(
            packet[-self.suite.tag :], self._sum(1, body + roc, self.suite.tag)
        ):
            raise Forged
        return header + self._crypt(0, ssrc, index, text)

    def _parts(self, packet: bytes) -> tuple[bytes, bytes, int, int]:
        sequence, ssrc = struct.unpack_from("!2xH4xI", packet)
        length = 12 + 4 * (packet[0] & 15)
        if packet[0] & 0x10:
            length += 4 + 4 * struct.unpack_from("!2xH", packet, length)[0]
        index = self.index_of(ssrc, sequence)
        self.highest[ssrc] = max(index, self.highest.get(ssrc, 0))
        return packet[:length], packet[length:], ssrc, index

    def protect_rtcp(self, packet: bytes) -> bytes:
        """An RTCP packet, encrypted and with index and tag."""
        header, text = packet[:8], packet[8:]
        ssrc = struct.unpack_from("!I", packet, 4)[0]
        word = struct.pack("!I", self.rtcp_index | 1 << 31)
        self.rtcp_index += 1
        if self.suite.gcm:
            gcm, iv = self._gcm(3, ssrc, self.rtcp_index - 1)
            return header + gcm.encrypt(iv, text, header + word) + word + self.mki
        body = header + self._crypt(3, ssrc, self.rtcp_index - 1, text) + word
        return body + self.mki + self._sum(4, body, 10)

    def open_rtcp(self, packet: bytes) -> bytes:
        """The RTCP packet in an SRTCP packet. Raises Forged."""
        behind = len(self.mki) + (0 if self.suite.gcm else 10)
        body = packet[: len(packet) - behind]
        header, text, word = body[:8], body[8:-4], body[-4:]
        ssrc = struct.unpack_from("!I", header, 4)[0]
        index = struct.unpack("!I", word)[0] & 0x7FFFFFFF
        if self.suite.gcm:
            gcm, iv = self._gcm(3, ssrc, index)
            try:
                return header + gcm.decrypt(iv, text, header + word)
            except InvalidTag:
                raise Forged from None
        if not hmac.compare_digest(packet[-10:], self._sum(4, body, 10)):
            raise Forged
        return header + self._crypt(3, ssrc, index, text)


def crypto_lines(message: bytes) -> list[str]:
    """Values of the `a=crypto` lines in a SIP message."""
    return re.findall(r"^a=crypto:(.*?)\r?$", message.decode("utf-8", "replace"), re.MULTILINE)


def offer(port: int, lines: list[str], *, profile: str = "RTP/SAVP", more: str = "") -> str:
    """An SDP with PCMA and telephone-event and these `a=crypto` values."""
    return "\r\n".join(
        [
            "v=0",
            "o=- 1 1 IN IP4 127.0.0.1",
            "s=-",
            "c=IN IP4 127.0.0.1",
            "t=0 0",
            f"m=audio {port} {profile} 8 101",
            "a=rtpmap:8 PCMA/8000",
            "a=rtpmap:101 telephone-event/8000",
            *[f"a=crypto:{line}" for line in lines],
            *([more] if more else []),
            "a=ptime:20",
            "",
        ]
    )
