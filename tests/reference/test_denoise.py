# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise suppression on recorded speech in seeded noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.reference import corpus, hearing
from core.reference.hearing import Case
from core.reference.parity import build

LATE_MS = 12
Sound = NDArray[np.float64]


@pytest.fixture(scope="module")
def program() -> Path:
    return build(with_stock=False, example=hearing.EXAMPLE)


def speech(rate: int, seed: int, peak_db: float) -> tuple[Sound, NDArray[np.bool_]]:
    """Half a minute of recordings with pauses, after a second of silence, and where somebody speaks."""
    package = corpus.WIDE if rate == 16_000 else corpus.NARROW[0]
    found = sorted(corpus.folder(package).rglob("*.wav"))
    usable = [s for p in found if (s := corpus.read(p)) and s[0] == rate and len(s[1]) > rate]
    random = np.random.default_rng(seed)
    parts, spoken = [np.zeros(rate)], [np.zeros(rate, np.bool_)]
    for k in random.permutation(len(usable))[:10]:
        clip = usable[k][1].astype(np.float64)
        clip *= 32767 * 10 ** (peak_db / 20) / np.abs(clip).max()
        pause = np.zeros(int(random.uniform(1.0, 2.5) * rate))
        parts += [clip, pause]
        spoken += [np.ones(len(clip), np.bool_), np.zeros(len(pause), np.bool_)]
    return np.concatenate(parts)[: 30 * rate], np.concatenate(spoken)[: 30 * rate]


def noise(kind: str, length: int, rate: int, dbov: float, seed: int) -> Sound:
    random = np.random.default_rng(seed)
    made = random.standard_normal(length)
    if kind == "pink":
        spectrum = np.fft.rfft(made) / np.sqrt(np.maximum(np.arange(length // 2 + 1), 1))
        spectrum[: 100 * length // rate] = 0  # a line carries nothing lower
        made = np.fft.irfft(spectrum, length)
    return made * (32768 * 10 ** (dbov / 20) / np.std(made))


def db(ratio: float) -> float:
    return 10 * float(np.log10(ratio))


@pytest.mark.parametrize("rate", [8000, 16_000])
@pytest.mark.parametrize("kind", ["white", "pink"])
def test_the_signal_stands_further_out_of_the_noise(program: Path, rate: int, kind: str) -> None:
    cases, voices = [], []
    for seed in range(3):
        voice, spoken = speech(rate, seed, -12.0)
        # 5 dB below the voice, over all of it.
        level = db(float(np.mean(voice[spoken] ** 2)) / 2**30) - 5
        pcm = np.rint(voice + noise(kind, len(voice), rate, level, seed)).clip(-32768, 32767)
        cases.append(
            Case(rate, pcm.astype(np.int16), np.zeros(len(pcm), np.int16), noise_suppression=True)
        )
        voices.append((voice, spoken))
    late = rate * LATE_MS // 1000
    gains, downs = [], []
    for case, (voice, spoken), heard in zip(
        cases, voices, hearing.run(program, cases), strict=True
    ):
        out = heard.samples[late:].astype(np.float64)
        clean, noisy = (x[: len(out)] for x in (voice, case.caller.astype(np.float64)))
        settled = np.arange(len(out)) > 2 * rate
        on, off = spoken[: len(out)] & settled, ~spoken[: len(out)] & settled
        before = np.mean((noisy[on] - clean[on]) ** 2)
        after = np.mean((out[on] - clean[on]) ** 2)
        gains.append(db(float(before / after)))
        downs.append(db(float(np.mean(noisy[off] ** 2) / np.mean(out[off] ** 2))))
    print(f"{rate} Hz, {kind}: better by {gains} dB in speech; pauses quieter by {downs} dB")
    assert min(gains) >= 3.0, gains
    assert min(downs) >= 9.0, downs


def test_speech_is_told_where_it_was(program: Path) -> None:
    cases, masks = [], []
    for seed in range(4):
        voice, spoken = speech(8000, seed, -12.0)
        masks.append(spoken)
        noisy = voice + noise("pink", len(voice), 8000, -50.0, seed)
        for pcm, on in ((voice, False), (noisy, False), (noisy, True)):
            whole = np.rint(pcm).clip(-32768, 32767).astype(np.int16)
            cases.append(Case(8000, whole, np.zeros(len(whole), np.int16), noise_suppression=on))
    heard = hearing.run(program, cases)
    late = []
    for k in range(4):
        alone, noise_in, noise_out = (h.starts() for h in heard[3 * k : 3 * k + 3])
        assert len(noise_out) == len(alone), (alone, noise_in, noise_out)
        # A soft onset may be told sooner in noise, but not before it.
        told = [event.sample for event in heard[3 * k + 2].events if event.started]
        assert all(masks[k][max(at - 800, 0) : at + 2400].any() for at in told), told
        late += [after - before for before, after in zip(alone, noise_out, strict=True)]
    print(f"starts later by {sorted(late)} ms than without noise")
    assert max(late) <= 100, late
    assert abs(np.median(late)) <= 40, late
