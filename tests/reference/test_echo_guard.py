# SPDX-License-Identifier: GPL-3.0-or-later
"""The line-echo guard on recorded speech: the agent's own voice comes back attenuated, late and through a hybrid."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.reference import corpus, g711, hearing
from core.reference.hearing import Case
from core.reference.parity import build

ECHOES = [(-20.0, 150.0), (-10.0, 300.0), (-20.0, 33.3)]
Sound = NDArray[np.float64]
S = 8000


@pytest.fixture(scope="module")
def program() -> Path:
    return build(with_stock=False, example=hearing.EXAMPLE)


@cache
def clips() -> list[Path]:
    """Recordings of a second and more, in a seeded order."""
    found = sorted(corpus.folder(corpus.NARROW[0]).rglob("*.wav"))
    long = [p for p in found if (sound := corpus.read(p)) and len(sound[1]) > S]
    return [long[k] for k in np.random.default_rng(5).permutation(len(long))]


def talk(
    paths: list[Path], peak_db: float, seed: int, pause: tuple[float, float], seconds: int
) -> Sound:
    """Recordings with pauses between them."""
    random, parts = np.random.default_rng(seed), []
    for path in paths:
        sound = corpus.read(path)
        assert sound is not None
        clip = sound[1] * (32767 * 10 ** (peak_db / 20) / np.abs(sound[1].astype(float)).max())
        parts += [np.zeros(int(random.uniform(*pause) * S)), clip]
    said = np.concatenate(parts)[: seconds * S]
    return np.concatenate([said, np.zeros(seconds * S - len(said))])


def agent(k: int) -> Sound:
    return talk(clips()[40 * k : 40 * k + 40], -6.0, k, (0.05, 0.3), 40)


def caller(k: int, peak_db: float) -> Sound:
    return talk(clips()[320 + 8 * k : 328 + 8 * k], peak_db, 100 + k, (1.5, 4.0), 40)


def echo(sound: Sound, level_db: float, late_ms: float, seed: int) -> Sound:
    """Through a dispersive hybrid (even seeds: a plain one), attenuated and late."""
    hybrid = np.random.default_rng(seed).standard_normal(48) * np.exp(-np.arange(48) / 6)
    hybrid = np.ones(1) if seed % 2 == 0 else hybrid / np.sqrt((hybrid**2).sum())
    back = np.convolve(sound, hybrid)[: len(sound)] * 10 ** (level_db / 20)
    return np.concatenate([np.zeros(int(late_ms * S / 1000)), back])[: len(sound)]


def line(sound: Sound, seed: int) -> NDArray[np.int16]:
    """With noise of -65 dBov, through G.711."""
    noise = np.random.default_rng(seed).standard_normal(len(sound)) * 32768 * 10 ** (-65 / 20)
    pcm = np.rint(sound + noise).clip(-32768, 32767).astype(np.int16)
    law = ("PCMA", "PCMU")[seed % 2]
    return g711.decode(g711.encode(pcm, law), law).astype(np.int16)


def sent(sound: Sound) -> NDArray[np.int16]:
    return np.rint(sound).clip(-32768, 32767).astype(np.int16)


@pytest.mark.parametrize(("level_db", "late_ms"), ECHOES)
def test_an_echo_sets_off_speech_without_the_guard_and_not_with_it(
    program: Path, level_db: float, late_ms: float
) -> None:
    cases = []
    for k in range(4):
        heard = line(echo(agent(k), level_db, late_ms, k), k)
        cases += [Case(S, heard, sent(agent(k)), guard) for guard in (False, True)]
    starts = [len(heard.starts()) for heard in hearing.run(program, cases)]
    assert all(n > 0 for n in starts[0::2]), starts
    assert not any(starts[1::2]), starts


def interruption(k: int, peak_db: float) -> tuple[Sound, int]:
    """Seven seconds in which a caller begins to speak after 3 to 5 s; and the millisecond at which it is."""
    at_ms = int(np.random.default_rng(900 + k).uniform(3000, 5000))
    pause = (at_ms / 1000, at_ms / 1000 + 1e-6)
    return talk([clips()[200 + k]], peak_db, k, pause, 7), at_ms


@pytest.mark.parametrize(("level_db", "late_ms"), [(None, 0.0), *ECHOES[:2]])
@pytest.mark.parametrize("peak_db", [-6.0, -12.0])
def test_a_voice_over_the_agents_still_interrupts_it_in_time(
    program: Path, level_db: float | None, late_ms: float, peak_db: float
) -> None:
    cases, onsets = [], []
    for k in range(30):
        voice, at_ms = interruption(k, peak_db)
        onsets.append(at_ms)
        said = agent(k % 8)[k * S // 4 :][: len(voice)]
        back = 0 * said if level_db is None else echo(said, level_db, late_ms, k)
        cases.append(Case(S, line(voice, k), sent(said)))
        cases.append(Case(S, line(voice + back, k), sent(said), echo_guard=True))
    heard = hearing.run(program, cases)
    late = []
    for at_ms, clean, guarded in zip(onsets, heard[0::2], heard[1::2], strict=True):
        if not clean.starts():  # a recording of something else
            continue
        # Not before there was a voice.
        assert guarded.starts()[0] > at_ms, (at_ms, guarded.starts())
        late.append(guarded.starts()[0] - clean.starts()[0])
    late.sort()
    assert len(late) > 25
    print(f"echo {level_db} dB, voice {peak_db} dB: later by {late} ms")
    assert np.median(late) <= 40, late
    # A voice that is hardly louder than the echo may have to come out of it first.
    close = level_db == -10.0 and peak_db == -12.0
    assert np.mean([ms <= 100 for ms in late]) >= (0.9 if close else 1.0), late


def test_a_silent_agent_changes_nothing_and_audio_stays_as_it_is(program: Path) -> None:
    heard = line(caller(1, -20.0), 1)
    silent = np.zeros(len(heard), np.int16)
    off, on = hearing.run(program, [Case(S, heard, silent, guard) for guard in (False, True)])
    assert off.events == on.events
    np.testing.assert_array_equal(on.samples, heard)
