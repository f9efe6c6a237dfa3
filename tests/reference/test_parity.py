# SPDX-License-Identifier: GPL-3.0-or-later
"""What `just parity` compares, that it finds what differs, and that its calls are always the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from core.reference import corpus, g711, parity
from core.reference.path import Line, Outcome, walk
from core.reference.pool import Pool, State
from core.reference.speech import Event


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    threads = Pool(2)
    yield threads
    threads.close()


@cache
def recipes() -> list[corpus.Recipe]:
    return corpus.recipes(corpus.SLICE)


@cache
def short() -> Line:
    line = corpus.make(recipes()[0]).line
    return replace(line, payload=line.payload[: 10 * 8000])


def test_g711_has_the_values_of_its_definition() -> None:
    assert g711.decoder("PCMU")[[0x00, 0x80, 0x7F, 0xFF]].tolist() == [-32124, 32124, 0, 0]
    assert g711.decoder("PCMA")[[0xD5, 0x55, 0xAA, 0x2A]].tolist() == [8, -8, 32256, -32256]
    for codec in ("PCMA", "PCMU"):
        values = g711.decoder(codec)
        # Each value comes back; μ-law has two code words for zero.
        assert (g711.decode(g711.encode(values, codec), codec) == values).all()
        ramp = np.arange(-32768, 32768).astype(np.int16)
        assert (np.diff(g711.decode(g711.encode(ramp, codec), codec).astype(int)) >= 0).all()


def test_a_recipe_always_makes_the_same_call_and_every_recording_goes_through_both_laws() -> None:
    first = recipes()[2]
    again, line = corpus.make(first).line, corpus.make(first).line
    assert (line.payload, line.gain) == (again.payload, again.gain)
    assert line.agent is not None
    assert again.agent is not None
    np.testing.assert_array_equal(line.agent.voice, again.agent.voice)
    narrow = [recipe for recipe in recipes() if recipe.rate == 8000]
    by_law = {
        law: sorted(path for recipe in narrow if recipe.codec == law for path in recipe.clips)
        for law in ("PCMA", "PCMU")
    }
    assert by_law["PCMA"] == by_law["PCMU"] != []
    assert len(set(by_law["PCMA"])) == len(by_law["PCMA"])
    # CI's slice hears both laws, both rates and every kind of noise.
    slice_ = parity.chosen(20)
    assert {recipe.codec for recipe in slice_} == {"PCMA", "PCMU", "L16"}
    assert {recipe.noise for recipe in slice_} == set(corpus.NOISES)
    # And every setting of the gain and of the mixer, over every kind of background.
    lines = [corpus.make(recipe).line for recipe in slice_]
    assert {line.gain for line in lines} == set(corpus.GAINS)
    agents = [line.agent for line in lines if line.agent]
    assert {agent.settings for agent in agents} == set(corpus.MIXERS)
    loops = [agent.background for agent in agents]
    assert {loop is None or len(loop) for loop in loops} == {True, 0, 3 * 8000 + 77, 3 * 16000 + 77}


def test_noise_has_the_level_asked_for() -> None:
    for kind in corpus.NOISES[1:]:
        made = corpus.only_noise(corpus.with_noise(recipes()[0], kind), 5, -30)
        level = 20 * np.log10(np.std(np.concatenate(made.line.frames())) / 32768)
        assert level == pytest.approx(-30, abs=0.5)


def test_threads_have_sessions_of_their_own_and_the_same_results(pool: Pool) -> None:
    frames = np.concatenate(short().frames()).astype(np.float32) / np.float32(32768)
    windows = frames[: 40 * 256].reshape(-1, 256)
    alone, states = State(8000), [State(8000) for _ in range(3)]
    for window in windows:
        wanted = pool.probability(alone, window)
        found = [pool.submit(state, window) for state in states]
        assert [future.result() for future in found] == [wanted] * 3


def later(outcome: Outcome) -> None:
    outcome.events[0] = replace(outcome.events[0], frame=outcome.events[0].frame + 1)


def missing(outcome: Outcome) -> None:
    outcome.events.pop()


def one_more(outcome: Outcome) -> None:
    outcome.events.append(Event(10**6, True, 0))


def one_bit(outcome: Outcome) -> None:
    outcome.audio[1000] ^= 1


def cut(outcome: Outcome) -> None:
    outcome.audio = outcome.audio[:-1]


def unsure(outcome: Outcome) -> None:
    outcome.probabilities[3] += np.float32(2e-4)


def no_number(outcome: Outcome) -> None:
    outcome.probabilities[3] = np.nan


def fewer(outcome: Outcome) -> None:
    outcome.probabilities = outcome.probabilities[:-1]


def other_audio(outcome: Outcome) -> None:
    outcome.chunks[1] = replace(outcome.chunks[1], length=outcome.chunks[1].length - 1)


def sent_otherwise(outcome: Outcome) -> None:
    outcome.sent[77] ^= 1


def overs_uncounted(outcome: Outcome) -> None:
    outcome.overs += 1


CHANGES = [later, missing, one_more, one_bit, cut, unsure, no_number, fewer, other_audio]
CHANGES += [sent_otherwise, overs_uncounted]


@pytest.mark.parametrize("change", CHANGES)
def test_parity_finds(change: Callable[[Outcome], None], pool: Pool) -> None:
    wanted = walk(short(), pool)
    assert len(wanted.events) >= 2
    assert parity.compare("call", wanted, copy.deepcopy(wanted)).same(exact=True)
    found = copy.deepcopy(wanted)
    change(found)
    assert not parity.compare("call", wanted, found).same(exact=False)


def test_the_last_bit_of_a_probability_counts_where_it_must_be_exact(pool: Pool) -> None:
    wanted = walk(short(), pool)
    found = copy.deepcopy(wanted)
    found.probabilities[3] = np.nextafter(found.probabilities[3], np.float32(1))
    counts = parity.compare("call", wanted, found)
    assert counts.same(exact=False)
    assert not counts.same(exact=True)


def test_nothing_compared_is_no_parity() -> None:
    assert not parity.Counts().same(exact=False)
