# SPDX-License-Identifier: GPL-3.0-or-later
"""Gain and mixing of the plain Python path: that the text in core/reference/README.md means what it should."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.reference.level import POWERS, Gain, GainSettings, factor, steps
from core.reference.mixer import Mixer, MixerSettings, comfort_noise

FRAME = 160


def sine(peak: float, frames: int) -> NDArray[np.int16]:
    """400 Hz: a whole number of periods in a frame."""
    times = np.arange(frames * FRAME) / 8000
    return np.rint(peak * np.sin(2 * np.pi * 400 * times)).astype(np.int16)


def bursts(peak: float, seconds: int) -> NDArray[np.int16]:
    """A second of tone, a second of near silence, and so on: speech to a measure of levels."""
    quiet = np.tile(np.array([3, -3], np.int16), 4000)
    return np.concatenate([quiet, sine(peak, 50)] * (seconds // 2))


def through(gain: Gain, sound: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.concatenate([gain.run(frame) for frame in sound.reshape(-1, FRAME)])


def dbov(sound: NDArray[np.int16]) -> float:
    return float(10 * np.log10(np.mean(sound.astype(float) ** 2) / 2**30))


def test_tables_are_decibels() -> None:
    assert (len(POWERS), POWERS[0], POWERS[40], POWERS[360]) == (362, 1, 10, 10**9)
    for step in (-240, -161, -81, -80, -1, 0, 1, 120):
        np.testing.assert_allclose(factor(step), 10 ** (step / 80), rtol=1e-6)
    assert (factor(-999), factor(999)) == (factor(-240), factor(120))
    assert (steps(-26), steps(0.25)) == (-104, 1)


def test_faint_and_loud_speech_come_to_the_target() -> None:
    for peak in (800, 2000, 6000):
        said = through(Gain(GainSettings(True)), bursts(peak, 40))
        loud = said[-50 * FRAME :]
        assert abs(dbov(loud) - -26) < 1.5, peak


def test_without_gain_the_frame_is_left_alone_and_nothing_clips_with_it() -> None:
    sound = bursts(30000, 20)
    np.testing.assert_array_equal(through(Gain(), sound), sound)
    # After faint speech the gain is high; a shout must not clip.
    gain = Gain(GainSettings(True, -10.0, 30.0))
    through(gain, bursts(300, 40))
    shouted = through(gain, sine(32000, 5))
    assert np.abs(shouted.astype(int)).max() <= 32000


def test_the_background_gives_way_comes_back_and_fades_out() -> None:
    loop = np.full(1000, 1000, np.int16)
    mixer = Mixer(MixerSettings(duck_db=-20.0), loop)
    silence, talk = np.zeros(FRAME, np.int16), np.full(FRAME, 10, np.int16)

    def level(frame: NDArray[np.int16], talking: bool, frames: int) -> list[int]:
        return [int(mixer.mix(frame, talking)[-1]) for _ in range(frames)]

    assert level(silence, False, 25)[-6:] == [1000] * 6  # in by a twentieth a frame
    ducked = level(talk, True, 10)
    assert (ducked[0], ducked[-1]) == (810, 110)
    assert level(silence, False, 14) == [100] * 14  # 300 ms of hold
    assert level(silence, False, 25)[-1] == 1000
    mixer.stop()
    assert level(silence, False, 6) == [800, 600, 400, 200, 0, 0]
    assert mixer.overs == 0


def test_overs_are_clamped_and_counted() -> None:
    mixer = Mixer(MixerSettings(voice_db=6.0))
    loud = np.array([32767, -32768, 100] + [0] * 157, np.int16)
    assert mixer.mix(loud, True)[:3].tolist() == [32767, -32768, 200]
    assert mixer.overs == 2


def test_comfort_noise_has_its_level() -> None:
    assert abs(dbov(comfort_noise(8000)) - -50) < 0.05
