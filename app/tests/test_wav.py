# SPDX-License-Identifier: GPL-3.0-or-later
"""The upsampler for recognisers that want 16 kHz: a tone stays itself, its image is gone."""

from __future__ import annotations

import array
import io
import math
import wave

import pytest

from voice_edge.adapters.wav import doubled, halved, wav


def tone(hertz: float, rate: int, samples: int) -> bytes:
    step = 2 * math.pi * hertz / rate
    return array.array("h", (round(12_000 * math.sin(step * n)) for n in range(samples))).tobytes()


def level(pcm: bytes, hertz: float, rate: int) -> float:
    """Amplitude of one frequency, without the edges."""
    x = array.array("h", pcm)[200:-200]
    step = 2 * math.pi * hertz / rate
    real = sum(v * math.cos(step * n) for n, v in enumerate(x))
    imag = sum(v * math.sin(step * n) for n, v in enumerate(x))
    return 2 * math.hypot(real, imag) / len(x)


@pytest.mark.parametrize("hertz", [200, 1_000, 2_000, 3_000])
def test_a_tone_keeps_its_level_and_its_image_is_gone(hertz: int) -> None:
    up = doubled(tone(hertz, 8_000, 4_000))
    assert len(up) == 16_000
    assert level(up, hertz, 16_000) == pytest.approx(12_000, rel=0.03)
    assert level(up, 8_000 - hertz, 16_000) < 12_000 * 0.03


def test_old_samples_stay_and_loud_ones_do_not_wrap() -> None:
    loud = array.array("h", [32_767, 32_767, -32_768, -32_768] * 50)
    up = array.array("h", doubled(loud.tobytes()))
    assert up[0::2] == loud
    assert all((a > 0) == (m > 0) for a, m in zip(up[0:400:8], up[1:400:8], strict=True))
    assert doubled(b"") == b""


@pytest.mark.parametrize("hertz", [200, 1_000, 2_000, 3_000])
def test_half_the_rate_keeps_a_tone_and_folds_nothing_into_it(hertz: int) -> None:
    low = halved(tone(hertz, 16_000, 8_000))
    assert len(low) == 8_000
    assert level(low, hertz, 8_000) == pytest.approx(12_000, rel=0.03)
    alias = halved(tone(8_000 - hertz, 16_000, 8_000))
    assert level(alias, hertz, 8_000) < 12_000 * 0.03


def test_halving_takes_any_length_and_does_not_wrap() -> None:
    loud = array.array("h", [32_767, 32_767, 32_767, -32_768, -32_768, -32_768] * 50)
    low = array.array("h", halved(loud.tobytes()))
    assert all((a > 0) == (b > 0) for a, b in zip(low[30:120:3], low[33:120:3], strict=False))
    assert halved(b"") == b""
    assert len(halved(bytes(2))) == 2
    assert len(halved(bytes(6))) == 4


def test_wav_header_is_read_by_the_standard_library() -> None:
    pcm = tone(440, 8_000, 800)
    with wave.open(io.BytesIO(wav(pcm, 8_000))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 8_000)
        assert file.readframes(10_000) == pcm
