# SPDX-License-Identifier: GPL-3.0-or-later
"""A caller segment as a WAV file in memory, at the rate the recogniser wants."""

from __future__ import annotations

import array
import struct
import sys

# Half-band filter, windowed sinc (Hamming): the midpoint of 12 neighbours, in 1/32768.
_TAPS = (-182, 499, -1_259, 2_759, -6_037, 20_604)


def wav(pcm: bytes, rate: int) -> bytes:
    """int16 mono PCM with its RIFF header."""
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", 36 + len(pcm), b"WAVE",
        b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16,
        b"data", len(pcm),
    )  # fmt: skip
    return header + pcm


def doubled(pcm: bytes) -> bytes:
    """Twice the sampling rate. The old samples stay, the new ones lie midway between them.

    Pure Python: about 10 ms a second of speech, so run it in a thread.
    """
    x = array.array("h", pcm)
    if sys.byteorder == "big":
        x.byteswap()
    n = len(x)
    reach = len(_TAPS)
    pad = [0] * reach
    p = [*pad, *x, *pad]
    # Midpoint after sample i: pairs of neighbours at equal distance share a tap.
    new = [16_384] * n
    for distance, tap in enumerate(reversed(_TAPS)):
        left = p[reach - distance : reach - distance + n]
        right = p[reach + 1 + distance : reach + 1 + distance + n]
        new = [s + tap * (a + b) for s, a, b in zip(new, left, right, strict=True)]
    out = array.array("h", bytes(4 * n))
    out[0::2] = x
    out[1::2] = array.array("h", [max(-32_768, min(32_767, s >> 15)) for s in new])
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def halved(pcm: bytes) -> bytes:
    """Half the sampling rate, without what has no place in it. In pure Python, like `doubled`."""
    x = array.array("h", pcm)
    if sys.byteorder == "big":
        x.byteswap()
    n = (len(x) + 1) // 2
    reach = 2 * len(_TAPS)
    p = [*[0] * reach, *x, *[0] * (reach + 1)]
    # A sample counts for half; the midpoint of its neighbours at odd distances is the other half.
    new = [(v << 15) + 32_768 for v in p[reach : reach + 2 * n : 2]]
    for distance, tap in enumerate(reversed(_TAPS)):
        off = 2 * distance + 1
        left = p[reach - off : reach - off + 2 * n : 2]
        right = p[reach + off : reach + off + 2 * n : 2]
        new = [s + tap * (a + b) for s, a, b in zip(new, left, right, strict=True)]
    out = array.array("h", [max(-32_768, min(32_767, s >> 16)) for s in new])
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()
