# SPDX-License-Identifier: GPL-3.0-or-later
"""G.711 by tables (ITU-T G.711, 1988): A-law and μ-law, 8 bits a sample, to and from int16."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import laws

Pcm = npt.NDArray[np.int16]

_BIAS = 0x84  # μ-law: 33 in the 14-bit domain, 132 in 16 bits
_CLIP = 32635


def _ulaw_decode_table() -> Pcm:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + _BIAS) << ((code >> 4) & 7)) - _BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_decode_table() -> Pcm:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment, step = (code >> 4) & 7, (code & 0x0F) << 4
    magnitude = np.where(segment == 0, step + 8, (step + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _exponent(value: npt.NDArray[np.int32], first_bit: int) -> npt.NDArray[np.int32]:
    """Place of the highest set bit above ``first_bit``, 0 to 7."""
    exponent = np.zeros_like(value)
    for segment in range(1, 8):
        exponent[value >= 1 << (first_bit + segment)] = segment
    return exponent


def _ulaw_encode_table() -> npt.NDArray[np.uint8]:
    pcm = np.arange(-32768, 32768, dtype=np.int32)
    value = np.minimum(np.abs(pcm), _CLIP) + _BIAS
    exponent = _exponent(value, 7)
    code = (exponent << 4) | ((value >> (exponent + 3)) & 0x0F)
    return (~(code | np.where(pcm < 0, 0x80, 0)) & 0xFF).astype(np.uint8)


def _alaw_encode_table() -> npt.NDArray[np.uint8]:
    pcm = np.arange(-32768, 32768, dtype=np.int32)
    # Negative values are coded by their one's complement, so that 0 and -1 differ in sign only.
    value = np.where(pcm < 0, ~pcm, pcm)
    exponent = _exponent(value, 7)
    code = (exponent << 4) | ((value >> np.maximum(exponent + 3, 4)) & 0x0F)
    return ((code | np.where(pcm < 0, 0, 0x80)) ^ 0x55).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Codec(laws.Law):
    """One law and its tables."""

    _encode: npt.NDArray[np.uint8]
    _decode: Pcm

    def encode(self, pcm: Pcm) -> bytes:
        """int16 samples to one byte each."""
        return self._encode[pcm.astype(np.int32) + 32768].tobytes()

    def decode(self, payload: bytes) -> Pcm:
        """Bytes to int16 samples."""
        return self._decode[np.frombuffer(payload, dtype=np.uint8)]


PCMU = Codec(laws.PCMU.name, laws.PCMU.payload_type, _ulaw_encode_table(), _ulaw_decode_table())
PCMA = Codec(laws.PCMA.name, laws.PCMA.payload_type, _alaw_encode_table(), _alaw_decode_table())
CODECS = {codec.name: codec for codec in (PCMA, PCMU)}
