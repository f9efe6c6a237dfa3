# SPDX-License-Identifier: GPL-3.0-or-later
"""WAV in, WAV out, and the one resampling step that recognition needs (8 kHz to 16 kHz)."""

from __future__ import annotations

import io
import wave

import numpy as np
import numpy.typing as npt

from .errors import ApiError

Samples = npt.NDArray[np.float32]

RECOGNISER_RATE = 16000
_HALF = 32  # taps on each side of the half-band interpolator


def _interpolator() -> Samples:
    """Windowed-sinc taps for the odd output samples; 4 kHz cut-off at 16 kHz, gain 1."""
    offsets = np.arange(-_HALF, _HALF) + 0.5
    taps = np.sinc(offsets) * np.kaiser(2 * _HALF, 8.0)
    normalised: Samples = (taps / taps.sum()).astype(np.float32)
    return normalised


_TAPS = _interpolator()


def double_rate(samples: Samples) -> Samples:
    """Interpolate by two (8 kHz to 16 kHz): even samples are kept, odd ones are between them."""
    out = np.empty(2 * len(samples), dtype=np.float32)
    out[0::2] = samples
    padded = np.pad(samples, (_HALF - 1, _HALF))
    out[1::2] = np.convolve(padded, _TAPS, mode="valid")
    return out


def decode_wav(data: bytes) -> Samples:
    """A WAV file (16-bit PCM; 8 or 16 kHz; channels are averaged) as mono at 16 kHz in [-1, 1).

    Raises ApiError (400) on anything else.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError, ValueError) as error:
        raise ApiError(
            400, f"the file is not a WAV file this server reads: {error}", param="file"
        ) from error
    if width != 2:
        raise ApiError(400, f"WAV of {8 * width} bits; send 16-bit PCM", param="file")
    if rate not in (RECOGNISER_RATE // 2, RECOGNISER_RATE):
        raise ApiError(400, f"WAV of {rate} Hz; send 8000 or 16000 Hz", param="file")
    whole = len(raw) - len(raw) % (2 * channels)
    pcm = np.frombuffer(raw[:whole], dtype="<i2").reshape(-1, channels)
    if len(pcm) == 0:
        raise ApiError(400, "the WAV file holds no audio", param="file")
    mono = (pcm.astype(np.float32).mean(axis=1) / 32768.0).astype(np.float32)
    return mono if rate == RECOGNISER_RATE else double_rate(mono)


def encode_wav(pcm: bytes, rate: int) -> bytes:
    """Mono 16-bit PCM as a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return buffer.getvalue()
