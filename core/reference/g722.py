# SPDX-License-Identifier: GPL-3.0-or-later
"""G.722 by spandsp, which shares no code with ours: the oracle of the codec, and the peers' codec in tests.

The library comes with baresip, whose G.722 it is (Debian's package `libspandsp2`).
"""

from __future__ import annotations

import array
import ctypes
import ctypes.util
from functools import cache

_RATE = 64_000
_NAMES = ("libspandsp.so.2", "libspandsp.so.3")


@cache
def _library() -> ctypes.CDLL:
    for name in (*_NAMES, ctypes.util.find_library("spandsp")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None:
            break
    else:
        raise RuntimeError("spandsp is not installed: as root, apt-get install libspandsp2")
    for kind in ("encode", "decode"):
        init = getattr(library, f"g722_{kind}_init")
        init.restype = ctypes.c_void_p
        init.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
        free = getattr(library, f"g722_{kind}_free")
        free.restype = ctypes.c_int
        free.argtypes = (ctypes.c_void_p,)
        work = getattr(library, f"g722_{kind}")
        work.restype = ctypes.c_int
        work.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    return library


class Encoder:
    """One stream from 16 kHz samples to bytes."""

    def __init__(self) -> None:
        self._state = _library().g722_encode_init(None, _RATE, 0)

    def encode(self, samples: array.array[int]) -> bytes:
        """A byte for each two samples; an even number of them."""
        assert len(samples) % 2 == 0, "G.722 codes samples in pairs"
        out = ctypes.create_string_buffer(len(samples) // 2 + 1)
        given = (ctypes.c_int16 * len(samples)).from_buffer_copy(samples)
        length = _library().g722_encode(self._state, out, given, len(samples))
        return out.raw[:length]

    def __del__(self) -> None:
        _library().g722_encode_free(self._state)


class Decoder:
    """One stream from bytes to 16 kHz samples."""

    def __init__(self) -> None:
        self._state = _library().g722_decode_init(None, _RATE, 0)

    def decode(self, data: bytes) -> array.array[int]:
        """Two samples for each byte."""
        out = (ctypes.c_int16 * (2 * len(data) + 2))()
        length = _library().g722_decode(self._state, out, data, len(data))
        return array.array("h", bytes(out)[: 2 * length])

    def __del__(self) -> None:
        _library().g722_decode_free(self._state)
