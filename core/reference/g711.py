# SPDX-License-Identifier: GPL-3.0-or-later
"""G.711 from its definition (ITU-T G.711, tables 1 and 2), by tables over all inputs; no code of the core's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Codes = NDArray[np.uint8]


def _alaw(code: int) -> int:
    """Output value of an A-law code word, scaled to 16 bit."""
    bits = code ^ 0x55
    segment, step = bits >> 4 & 7, bits & 15
    # Segments 0 and 1 have the same step; the output lies in the middle of its interval.
    low = 2 * step + 1 if segment == 0 else (2 * step + 33) << (segment - 1)
    return 8 * low if bits & 0x80 else -8 * low


def _ulaw(code: int) -> int:
    """Output value of a μ-law code word, scaled to 16 bit."""
    bits = ~code & 0xFF
    segment, step = bits >> 4 & 7, bits & 15
    value = ((2 * step + 33) << segment) - 33
    return -4 * value if bits & 0x80 else 4 * value


_LAWS: dict[str, Callable[[int], int]] = {"PCMA": _alaw, "PCMU": _ulaw}


@cache
def decoder(codec: str) -> Samples:
    """Output value of each of the 256 code words."""
    return np.array([_LAWS[codec](code) for code in range(256)], np.int16)


@cache
def _encoder(codec: str) -> Codes:
    """Code word of each 16-bit sample + 32768: that of the nearest output value."""
    values = decoder(codec).astype(np.int64)
    codes = np.argsort(values, kind="stable")
    bounds = (values[codes][1:] + values[codes][:-1]) / 2
    nearest = np.searchsorted(bounds, np.arange(-32768, 32768), side="left")
    return codes[nearest].astype(np.uint8)


def encode(samples: Samples, codec: str) -> Codes:
    """Code words, `codec` PCMA or PCMU."""
    return _encoder(codec)[samples.astype(np.int32) + 32768]


def decode(codes: Codes, codec: str) -> Samples:
    """16-bit samples."""
    return decoder(codec)[codes]
