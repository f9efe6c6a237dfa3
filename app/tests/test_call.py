# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole conversations on virtual time, with a fake line and fake servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from .bench import MS, POLICY
from .fakes import FakeCall, Script, down, now_ns
from .stage import Stage

UNFILLED = replace(POLICY, fillers=())


def test_three_turns() -> None:
    stage = Stage("It is noon. Lunch is at one.", "Soup and bread.", "You are welcome.")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        for question in ("What time is it?", "What is for lunch?", "Thank you."):
            await call.says(question)
            await call.hears_end()
        await call.silence(0.5)

    stage.play(caller)
    assert stage.said == [
        ("assistant", "Hello there."),
        ("user", "What time is it?"),
        ("assistant", "It is noon. Lunch is at one."),
        ("user", "What is for lunch?"),
        ("assistant", "Soup and bread."),
        ("user", "Thank you."),
        ("assistant", "You are welcome."),
    ]
    assert [len(asked) for asked in stage.llm.asked] == [3, 5, 7]
    for turn in stage.agent:
        assert turn.samples == stage.call.samples(turn.id)
    assert stage.tts.spoken.count("Hello there.") == 1  # from the cache


def test_the_first_sentence_is_spoken_while_the_model_still_writes() -> None:
    stage = Stage(Script(["One is first.", "Two"] + ["and"] * 100, pause_s=0.1))

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("Count")
        await call.hears_something()
        assert stage.llm.open == 1

    stage.play(caller)


def test_barge_in_silences_and_closes_everything_at_once() -> None:
    long = Script(["This is a very long story about many things."] * 30, pause_s=0.2)
    stage = Stage(long, "Fine.")
    spoke_ns = 0

    async def caller(call: FakeCall) -> None:
        nonlocal spoke_ns
        await call.hears_end()
        await call.says("Tell me a story")
        await call.hears_something()
        await call.silence(2.0)
        assert stage.llm.open == 1
        spoke_ns = now_ns()
        speech = asyncio.create_task(call.says("Stop please"))
        await call.silence(0.2)
        assert stage.llm.open == 0
        assert stage.tts.open == 0
        await speech
        await call.hears_end()

    stage.play(caller)
    cut = stage.agent[1]
    assert [turn for turn, _ in stage.call.clears] == [cut.id]
    assert (stage.call.clears[0][1] - spoke_ns) / MS <= 120
    assert cut.interrupted
    assert cut.samples == stage.call.samples(cut.id)
    sent = sum(samples for turn, samples in stage.call.played if turn == cut.id)
    assert cut.samples == sent
    heard = cut.heard
    assert heard
    assert cut.text.startswith(heard)
    # 15 characters a second: what is remembered is what was played, to the word.
    assert sent / 8_000 * 15 - 15 <= len(heard) <= sent / 8_000 * 15 + 1
    assert stage.llm.asked[1][-2].content == heard
    assert stage.llm.asked[1][-1].content == "Stop please"


@pytest.mark.parametrize("heard_ms", [0, 50, 500])
def test_b37_interrupted_right_after_the_first_frame(heard_ms: int) -> None:
    stage = Stage("One two three four five six.", "Fine.")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("Count")
        await call.hears_something()
        await call.silence(max(0, heard_ms - 120) / 1_000)
        await call.says("Stop")
        await call.hears_end()

    stage.play(caller)
    cut = stage.agent[1]
    played = sum(samples for turn, samples in stage.call.played if turn == cut.id)
    assert len(cut.heard) <= played / 8_000 * 15
    assert "One two three four five six.".startswith(cut.heard)


def test_b41_cough_resumes_the_reply() -> None:
    stage = Stage("It is noon and the sun is shining. Lunch is ready.")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_something()
        await call.silence(0.5)
        await call.says("(cough)", 0.3)
        await call.hears_end()
        await call.silence(0.5)

    stage.play(caller)
    assert stage.said[-1] == ("assistant", "It is noon and the sun is shining. Lunch is ready.")
    assert len(stage.llm.asked) == 1


def test_b41_clap_after_the_turn_still_gets_its_answer() -> None:
    stage = Stage("It is noon.")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.silence(0.3)
        await call.says("", 0.3)
        await call.hears_end()

    stage.play(caller)
    assert stage.said[-2:] == [("user", "What time is it?"), ("assistant", "It is noon.")]


@pytest.mark.parametrize("delay_s", [0.1, 1.0, 3.0])
def test_b39_slow_recognition_one_request(delay_s: float) -> None:
    stage = Stage("It is noon.", policy=UNFILLED)
    stage.stt.delay_s = delay_s

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_end()

    stage.play(caller)
    assert len(stage.llm.asked) == 1
    reply = stage.agent[1]
    assert reply.first_sample_ns is not None
    assert reply.requested_ns is not None
    assert (reply.first_sample_ns - reply.requested_ns) / MS < 1_000


def test_caller_goes_on_two_utterances_one_turn() -> None:
    stage = Stage(Script(["What would you like?"], first_s=1.0), "One pizza.")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("I would like")
        await call.silence(0.5)
        assert stage.llm.open == 1
        await call.says("a pizza")
        await call.hears_end()

    stage.play(caller)
    assert [a[-1].content for a in stage.llm.asked] == ["I would like", "I would like a pizza"]
    assert stage.said[-2:] == [("user", "I would like a pizza"), ("assistant", "One pizza.")]


@pytest.mark.parametrize(
    "script",
    [
        Script(fails=down("llm")),
        Script(hangs=True),
        Script(),
        Script(fails=RuntimeError("a fault of ours")),
    ],
    ids=["down", "hangs", "empty", "bug"],
)
def test_model_that_does_not_answer(script: Script) -> None:
    stage = Stage(script, "It is noon.", policy=UNFILLED)

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_end()
        await call.says("And now?")
        await call.hears_end()

    stage.play(caller)
    assert [a.kind for a in stage.agent if a.samples] == ["greeting", "apology", "reply"]
    assert stage.said[-1] == ("assistant", "It is noon.")


def test_voice_that_fails_apologises_from_the_cache() -> None:
    stage = Stage("It is noon.")

    async def caller(call: FakeCall) -> None:
        stage.tts.fails = lambda _: down("tts")
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_end()

    stage.play(caller)
    assert stage.said == [
        ("assistant", "Hello there."),
        ("user", "What time is it?"),
        ("assistant", "Sorry about that."),
    ]


def test_voice_that_fails_without_a_cache_leaves_the_call_up() -> None:
    stage = Stage("It is noon.")
    stage.cache = False
    stage.tts.fails = lambda _: down("tts")

    async def caller(call: FakeCall) -> None:
        await call.silence(1.0)
        await call.says("What time is it?")
        await call.silence(2.0)
        assert not call.gone
        stage.tts.fails = lambda _: None
        await call.says("And now?")
        await call.hears_end()

    stage.play(caller)
    assert stage.said[-1] == ("assistant", "It is noon.")


def test_recognition_that_fails() -> None:
    stage = Stage("It is noon.")
    stage.stt.fails = down("stt")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_end()
        stage.stt.fails = None
        await call.says("What time is it?")
        await call.hears_end()

    stage.play(caller)
    assert [a.kind for a in stage.agent] == ["greeting", "apology", "reply"]


def test_long_reply_waits_for_room_in_the_playout() -> None:
    text = "This sentence takes about three seconds or so. "
    stage = Stage(Script([text.strip()] * 20, pause_s=0.01))

    async def caller(call: FakeCall) -> None:
        call.limit_s = 10.0
        await call.hears_end()
        await call.says("Tell me")
        await call.hears_end()

    stage.play(caller)
    assert stage.agent[1].heard == (text * 20).strip()
    assert len(stage.agent) == 2


def test_silence_ends_the_call() -> None:
    stage = Stage("unused")

    async def caller(call: FakeCall) -> None:
        await call.hears_end(3)
        await call.silence(0.5)
        assert call.hung_up

    stage.play(caller)
    assert [a.kind for a in stage.agent] == ["greeting", "reprompt", "goodbye"]


def test_caller_who_left_before_the_answer() -> None:
    stage = Stage("unused")

    async def caller(call: FakeCall) -> None:
        call.gone = True
        await call.silence(0.1)

    stage.play(caller)
    assert stage.agent == []


@pytest.mark.parametrize("when_s", [0.05, 0.5, 2.2, 2.6, 3.0, 4.0])
def test_caller_who_leaves_at_any_moment_leaves_nothing_behind(when_s: float) -> None:
    stage = Stage(Script(["A long answer, a very long one."] * 10, pause_s=0.3))

    async def caller(call: FakeCall) -> None:
        speech = asyncio.create_task(call.says("Tell me", 0.9))
        await call.silence(when_s)
        speech.cancel()
        await asyncio.gather(speech, return_exceptions=True)
        call.leaves()

    stage.play(caller)


def test_caller_who_leaves_does_not_wait_for_a_recogniser_that_hangs() -> None:
    stage = Stage("unused")
    stage.stt.delay_s = 3_600.0

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.silence(0.1)
        assert stage.stt.open == 1
        call.leaves()
        await call.silence(0.1)
        assert stage.stt.open == 0

    stage.play(caller)
