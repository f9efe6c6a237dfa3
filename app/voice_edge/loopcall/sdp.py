# SPDX-License-Identifier: GPL-3.0-or-later
"""The little SDP an audio call needs (RFC 8866, RFC 3264)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .laws import LAWS, Law

_DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")
_ANSWER = {"sendonly": "recvonly", "recvonly": "sendonly"}


class SdpError(ValueError):
    """The description cannot be used; the message says why."""


@dataclass(frozen=True)
class AudioDescription:
    """One audio stream as its owner describes it."""

    address: str
    port: int
    payload_types: tuple[int, ...]
    codec_names: dict[int, str]
    telephone_event: int | None
    direction: str
    ptime_ms: int

    def first_codec(self) -> tuple[Law, int]:
        """The first G.711 law listed, with its payload type. Raises SdpError if there is none."""
        for number in self.payload_types:
            law = LAWS.get(self.codec_names.get(number, ""))
            if law is not None:
                return law, number
        raise SdpError("no G.711 codec in the description")

    @property
    def answer_direction(self) -> str:
        """Direction that answers this one (RFC 3264 §6.1)."""
        return _ANSWER.get(self.direction, self.direction)


def write(
    address: str,
    port: int,
    codecs: Sequence[Law],
    *,
    version: int = 1,
    direction: str = "sendrecv",
    telephone_event: int | None = 101,
) -> bytes:
    """Describe one audio stream at ``address``:``port`` (RTCP at the next port)."""
    family = "IP6" if ":" in address else "IP4"
    numbers = [codec.payload_type for codec in codecs]
    lines = [
        "v=0",
        f"o=- 1 {version} IN {family} {address}",
        "s=-",
        f"c=IN {family} {address}",
        "t=0 0",
    ]
    attributes = [f"a=rtpmap:{codec.payload_type} {codec.name}/8000" for codec in codecs]
    if telephone_event is not None:
        numbers.append(telephone_event)
        attributes.append(f"a=rtpmap:{telephone_event} telephone-event/8000")
        attributes.append(f"a=fmtp:{telephone_event} 0-15")
    lines.append(f"m=audio {port} RTP/AVP {' '.join(map(str, numbers))}")
    lines += [*attributes, "a=ptime:20", f"a={direction}"]
    return ("\r\n".join(lines) + "\r\n").encode()


def parse(body: bytes) -> AudioDescription:
    """Read the first audio stream. Raises SdpError."""
    try:
        lines = body.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SdpError("not UTF-8") from error
    address = ""
    port = -1
    numbers: tuple[int, ...] = ()
    names = {0: "PCMU", 8: "PCMA"}
    event: int | None = None
    direction, ptime = "sendrecv", 20
    in_audio = in_other = False
    for line in lines:
        kind, _, value = line.partition("=")
        value = value.strip()
        if kind == "m":
            in_other = in_audio or not value.startswith("audio ")
            if not in_other:
                in_audio = True
                port, numbers = _media(value)
        elif in_other:
            continue
        elif kind == "c":
            address = value.split(" ")[-1]
        elif kind == "a" and value in _DIRECTIONS:
            direction = value
        elif kind == "a" and value.startswith("ptime:") and value[6:].isdigit():
            ptime = int(value[6:])
        elif kind == "a" and value.startswith("rtpmap:"):
            number, _, encoding = value[7:].partition(" ")
            if number.isdigit():
                name = encoding.split("/")[0]
                names[int(number)] = name.upper()
                if name.lower() == "telephone-event":
                    event = int(number)
    if port < 0 or not address:
        raise SdpError("no audio stream with an address")
    return AudioDescription(address, port, numbers, names, event, direction, ptime)


def _media(value: str) -> tuple[int, tuple[int, ...]]:
    parts = value.split()
    if len(parts) < 4 or not all(part.isdigit() for part in [parts[1], *parts[3:]]):
        raise SdpError("malformed m= line")
    return int(parts[1]), tuple(int(part) for part in parts[3:])
