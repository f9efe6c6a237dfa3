# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls made of recorded speech by seeded recipes: pauses, noise, levels, codecs.

Speech: the prompts of Debian's asterisk-core-sounds packages (8 kHz, five languages, professional speakers) and the
LibriVox clips of pocketsphinx-testdata (16 kHz). Every recording goes through A-law and through μ-law, in calls
that differ in everything else. The same recipe always makes the same call.
"""

from __future__ import annotations

import subprocess
import sys
import wave
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.reference import g711
from core.reference.level import NO_GAIN, GainSettings
from core.reference.mixer import MixerSettings
from core.reference.path import LINEAR, Agent, Line
from core.reference.silero import ROOT

NARROW = tuple(
    f"asterisk-core-sounds-{language}-wav" for language in ("en", "es", "fr", "it", "ru")
)
WIDE = "pocketsphinx-testdata"
SLICE = (NARROW[0], WIDE)  # what tests fetch anyway
NOISES = ("silence", "white", "pink", "hum", "babble")
SPEECH_S = 60  # of a call, without its pauses
LOUDEST_DB, SOFTEST_DB = 0.0, -40.0  # peak of a recording, of full scale
WIDE_TIMES = 5  # there is a minute of wideband speech: it comes again in each kind of noise

GAINS = (
    NO_GAIN,
    GainSettings(True),
    GainSettings(True, -20.0, 30.0),
    GainSettings(True, -26.25, 12.5),
)
MIXERS = (
    MixerSettings(),
    MixerSettings(3.0, -6.0, -12.0),
    MixerSettings(-6.5, 0.0, -20.25),
    MixerSettings(0.0, -30.0, -40.0),
    MixerSettings(12.0, 6.0, 0.0),
)

Signal = NDArray[np.float64]


@dataclass(frozen=True)
class Recipe:
    """How a call is made."""

    name: str
    seed: int
    rate: int
    codec: str
    noise: str
    clips: tuple[Path, ...]

    @property
    def number(self) -> int:
        """What chooses settings of gain and mixer: all kinds of them turn up in a few calls."""
        return int(np.random.default_rng([self.seed, 3]).integers(1 << 16))


@dataclass(frozen=True)
class Made:
    """A call, and where in it somebody speaks: first and last sample of each recording."""

    line: Line
    spoken: tuple[tuple[int, int], ...]
    clipped: int
    """Samples that noise on loud speech pushed over full scale."""


def folder(package: str) -> Path:
    """The unpacked package, fetched if need be."""
    fetched = subprocess.run(
        [sys.executable, "-m", "tools.fetch", package],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Path(fetched.stdout.strip())


@lru_cache(maxsize=256)
def read(path: Path) -> tuple[int, NDArray[np.int16]] | None:
    """Rate and samples; None where the file is no mono 16-bit WAV of a rate of the line."""
    try:
        with wave.open(str(path)) as sound:
            rate = sound.getframerate()
            if (sound.getnchannels(), sound.getsampwidth()) != (1, 2) or rate not in (8000, 16000):
                return None
            return rate, np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    except (wave.Error, EOFError):
        return None


def recipes(packages: tuple[str, ...]) -> list[Recipe]:
    """All calls of the packages, those of the packages in turn."""
    return _in_turn([_of_package(package) for package in packages])


def _of_package(package: str) -> list[Recipe]:
    top = folder(package)
    usable = [(path, sound) for path in sorted(top.rglob("*.wav")) if (sound := read(path))]
    long_enough = [(path, sound) for path, sound in usable if len(sound[1]) > sound[0] // 5]
    rate = 16_000 if package == WIDE else 8000
    kinds = (LINEAR,) * WIDE_TIMES if package == WIDE else ("PCMA", "PCMU")
    found: list[list[Recipe]] = []
    for turn, codec in enumerate(kinds):
        seed = _seed(package) + turn
        order = np.random.default_rng(seed).permutation(len(long_enough))
        group: list[Path] = []
        length = 0.0
        of_codec: list[Recipe] = []
        for k in order:
            path, (_, samples) = long_enough[k]
            group.append(path)
            length += len(samples) / rate
            if length >= SPEECH_S or k == order[-1]:
                number = len(of_codec)
                noise = NOISES[(number + 2 * turn) % len(NOISES)]
                name = f"{package} {codec} {turn}.{number}"
                made = Recipe(name, seed + 1000 * number, rate, codec, noise, tuple(group))
                of_codec.append(made)
                group, length = [], 0.0
        found.append(of_codec)
    return _in_turn(found)


def _in_turn(lists: Sequence[Sequence[Recipe]]) -> list[Recipe]:
    return [recipe for turn in zip_longest(*lists) for recipe in turn if recipe is not None]


def _seed(package: str) -> int:
    return sum((k + 1) * byte for k, byte in enumerate(package.encode()))


def make(recipe: Recipe) -> Made:
    """The call of a recipe: pause, recording, pause, …, a long pause; over it noise; then the codec."""
    random = np.random.default_rng([recipe.seed, 1])
    parts: list[Signal] = []
    spoken: list[tuple[int, int]] = []
    at = 0
    for path in recipe.clips:
        # From shorter than what ends speech to much longer.
        pause = np.zeros(int(random.uniform(0.1, 2.2) * recipe.rate))
        clip = _levelled(_samples(path), random.uniform(SOFTEST_DB, LOUDEST_DB))
        spoken.append((at + len(pause), at + len(pause) + len(clip)))
        at = spoken[-1][1]
        parts += [pause, clip]
    parts.append(np.zeros(2 * recipe.rate))
    speech = np.concatenate(parts)
    mixed = speech + noise(recipe, len(speech), random.uniform(-70, -35))
    samples = np.rint(mixed)
    clipped = int(np.count_nonzero((samples < -32768) | (samples > 32767)))
    pcm = samples.clip(-32768, 32767).astype(np.int16)
    linear = recipe.codec == LINEAR
    coded = pcm.astype("<i2") if linear else g711.encode(pcm, recipe.codec)
    line = Line(recipe.rate, recipe.codec, coded.tobytes(), GAINS[recipe.number % len(GAINS)])
    return Made(replace(line, agent=_agent(recipe, line)), tuple(spoken), clipped)


def _agent(recipe: Recipe, line: Line) -> Agent:
    """It says what the caller says, half a call later; every third background is a loop of hum."""
    frames = line.frames()
    voice = np.concatenate(frames[len(frames) // 2 :] + frames[: len(frames) // 2])
    peaks = np.abs(voice.reshape(len(frames), -1).astype(np.int32)).max(axis=1)
    background = None
    if recipe.number % 3 == 1:
        background = np.zeros(0, np.int16)
    elif recipe.number % 3 == 2:
        loop = noise(with_noise(recipe, "hum"), 3 * recipe.rate + 77, -25)
        background = np.rint(loop).astype(np.int16)
    mixing = MIXERS[recipe.number % len(MIXERS)]
    return Agent(voice, peaks > 256, mixing, background, len(frames) * 2 // 3)


def only_noise(recipe: Recipe, seconds: float, level_db: float) -> Made:
    """A call in which nobody speaks."""
    samples = np.rint(noise(recipe, int(seconds * recipe.rate), level_db)).clip(-32768, 32767)
    payload = g711.encode(samples.astype(np.int16), recipe.codec).tobytes()
    return Made(Line(recipe.rate, recipe.codec, payload), (), 0)


def with_noise(recipe: Recipe, kind: str) -> Recipe:
    """The same call in other noise."""
    return replace(recipe, noise=kind)


def noise(recipe: Recipe, length: int, level_db: float) -> Signal:
    """Noise of the recipe's kind, its RMS `level_db` of full scale; silence is silence."""
    random = np.random.default_rng([recipe.seed, 2])
    if recipe.noise == "silence":
        return np.zeros(length)
    if recipe.noise == "white":
        wave_form = random.standard_normal(length)
    elif recipe.noise == "pink":
        wave_form = _pink(random, length)
    elif recipe.noise == "hum":  # the mains and its harmonics, with some hiss
        times = np.arange(length) / recipe.rate
        tones = [np.sin(2 * np.pi * 50 * k * times + random.uniform(0, 6)) / k for k in range(1, 9)]
        wave_form = np.sum(tones, axis=0) + 0.05 * random.standard_normal(length)
    else:
        wave_form = _babble(recipe, random, length)
    return wave_form * (32768 * 10 ** (level_db / 20) / max(float(np.std(wave_form)), 1e-9))


def _pink(random: np.random.Generator, length: int) -> Signal:
    size = 1 << max(length - 1, 1).bit_length()  # other lengths may take long
    spectrum = np.fft.rfft(random.standard_normal(size))
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1))
    return np.fft.irfft(spectrum)[:length]


def _babble(recipe: Recipe, random: np.random.Generator, length: int) -> Signal:
    """Eight voices at once, each saying the call's recordings in another order."""
    voices = np.zeros(length)
    for _ in range(8):
        at = 0
        while at < length:
            clip = _levelled(_samples(recipe.clips[random.integers(len(recipe.clips))]), -6.0)
            clip = clip[: length - at]
            voices[at : at + len(clip)] += clip
            at += len(clip) + 1
    return voices


def _samples(path: Path) -> Signal:
    sound = read(path)
    assert sound is not None, "recipes name readable recordings only"
    return sound[1].astype(np.float64)


def _levelled(samples: Signal, peak_db: float) -> Signal:
    return samples * (32767 * 10 ** (peak_db / 20) / max(float(np.abs(samples).max()), 1.0))
