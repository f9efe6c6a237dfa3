# SPDX-License-Identifier: GPL-3.0-or-later
"""The two laws of G.711 by name and number: all that signalling needs of them, without numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Law:
    """Its SDP name and its static payload type (RFC 3551 §6)."""

    name: str
    payload_type: int


PCMU = Law("PCMU", 0)
PCMA = Law("PCMA", 8)
LAWS = {law.name: law for law in (PCMA, PCMU)}


def magnitudes(law: Law) -> tuple[int, ...]:
    """What each of the 256 codes stands for, without its sign, as int16 (ITU-T G.711, 1988)."""
    return tuple(map(_alaw if law.name == PCMA.name else _ulaw, range(256)))


def _ulaw(code: int) -> int:
    code = ~code & 0xFF
    return ((((code & 0x0F) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84


def _alaw(code: int) -> int:
    code ^= 0x55
    segment, step = (code >> 4) & 7, (code & 0x0F) << 4
    return step + 8 if segment == 0 else (step + 0x108) << (segment - 1)
