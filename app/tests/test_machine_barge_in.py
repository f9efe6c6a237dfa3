# SPDX-License-Identifier: GPL-3.0-or-later
"""Interruptions: what is cut, what is remembered, what is resumed (B37, B41)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voice_edge.machine import Kind, State
from voice_edge.machine import events as ev

from .bench import MS, POLICY, Bench

TEN = "one two three four five six seven eight nine ten"


def speaking(*sentences: str, ms: int = 1_000, done: bool = True) -> tuple[Bench, int]:
    b = Bench().greeted()
    b.says("Tell me")
    return b, b.replies(*sentences, ms=ms, done=done)


def test_barge_in_stops_model_voice_and_playout_by_turn_id() -> None:
    b, turn = speaking("It is noon.", "Lunch time.")
    b.wait(300)
    b.starts_speaking()
    b.none(ev.ClearPlayout)  # 64 ms of speech: not long enough yet
    b.wait(36)
    assert b.take(ev.CancelReply).turn_id == turn
    assert b.take(ev.ClearPlayout).turn_id == turn
    assert b.state() is State.LISTENING


def test_barge_in_at_once_when_the_decision_took_longer_than_the_minimum() -> None:
    b, turn = speaking("It is noon.")
    b.wait(300)
    started = b.now
    b.wait(150)
    b.send(ev.SpeechStarted(started * MS, b.now * MS))
    assert b.take(ev.ClearPlayout).turn_id == turn


def test_events_of_the_cut_turn_are_ignored() -> None:
    b, turn = speaking("It is noon.", done=False)
    b.wait(300)
    b.starts_speaking()
    b.wait(200)
    b.forget()
    b.send(ev.ReplySentence(turn, "More."))
    b.send(ev.SentenceAudio(turn, 0, 800))
    b.send(ev.ReplyDone(turn))
    b.send(ev.VoiceFailed(turn, 0))
    assert b.actions == []


@pytest.mark.parametrize(
    ("heard_ms", "expected"),
    [
        (0, ""),
        (50, ""),  # of 1,000 ms: less than the first word
        (500, "one two three four five"),
        (999, TEN),
        (1_000, TEN),
        (1_500, TEN + " eleven twelve"),
        (2_000, TEN + " eleven twelve thirteen fourteen"),
    ],
)
def test_b37_only_what_was_played_is_remembered(heard_ms: int, expected: str) -> None:
    b, turn = speaking(TEN, "eleven twelve thirteen fourteen")
    b.wait(heard_ms)
    b.starts_speaking()
    b.wait(100)
    b.finished(turn, heard_ms, interrupted=True)
    b.stops_speaking()
    b.transcript("Stop")
    messages = [(m.role, m.content) for m in b.take(ev.Request).messages]
    if expected:
        assert messages[-2:] == [("assistant", expected), ("user", "Stop")]
    else:
        # Nothing was heard: both things the caller said stand together.
        assert messages[-1] == ("user", "Tell me Stop")


def test_a_sentence_still_being_synthesised_counts_by_its_likely_length() -> None:
    b = Bench().greeted()
    b.says("Tell me")
    turn = b.take(ev.Request).turn_id
    text = "one two three four five six seven eight nine ten"  # 48 characters: about 3.2 s
    b.send(ev.ReplySentence(turn, text))
    b.audio(turn, 0, 900, done=False)
    b.starts_playing(turn)
    b.wait(800)
    b.starts_speaking()
    b.wait(100)
    b.finished(turn, 800, interrupted=True)
    assert b.messages()[-1] == ("assistant", "one two")


def test_the_next_request_waits_for_the_count_of_what_was_heard() -> None:
    b, turn = speaking(TEN)
    b.wait(500)
    b.starts_speaking()
    b.wait(300)
    b.send(ev.SpeechEnded(b.now * MS, b.now * MS))
    b.transcript("Stop")
    b.none(ev.Request)
    b.finished(turn, 500, interrupted=True)
    assert b.take(ev.Request).messages[-2].content == "one two three four five"


def test_without_a_count_the_clock_decides() -> None:
    b, _ = speaking(TEN)
    b.wait(400)
    b.starts_speaking()
    b.wait(300)
    b.send(ev.SpeechEnded(b.now * MS, b.now * MS))
    b.transcript("Stop")
    b.none(ev.Request)
    b.wait(500)  # cut at 500 ms of play-out
    assert b.take(ev.Request).messages[-2].content == "one two three four five"


# --- B41: noise ---


def interrupt(b: Bench, turn: int, heard_ms: int, transcript: str, ms: int = 400) -> None:
    b.starts_speaking()
    b.wait(ms - 64)
    b.finished(turn, heard_ms, interrupted=True)
    b.stops_speaking()
    b.transcript(transcript)


@pytest.mark.parametrize("transcript", ["", "[noise]", "Uh-huh.", "mm"])
def test_b41_reply_is_resumed_from_the_cut_sentence(transcript: str) -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.", "Enjoy it.")
    b.wait(1_500)
    interrupt(b, turn, 1_500, transcript)
    b.none(ev.Request)
    says = b.all(ev.Say)
    assert [s.text for s in says] == ["Lunch is ready.", "Enjoy it."]
    assert [s.index for s in says] == [0, 1]
    again = says[0].turn_id
    assert again != turn
    assert b.take(ev.EndReply).turn_id == again
    b.audio(again, 0, 1_000)
    b.audio(again, 1, 1_000)
    b.starts_playing(again)
    assert b.state() is State.SPEAKING
    b.wait(2_000)
    b.finished(again, 2_000)
    assert b.state() is State.LISTENING
    # Said twice in part, remembered once.
    assert b.messages()[-1] == ("assistant", "It is noon. Lunch is ready. Enjoy it.")
    assert b.messages()[-2] == ("user", "Tell me")


def test_b41_resumed_reply_can_be_cut_and_resumed_again() -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.")
    b.wait(300)
    interrupt(b, turn, 300, "")
    again = b.all(ev.Say)[0].turn_id
    b.forget()
    b.wait(100)  # not even audible yet
    b.starts_speaking()
    b.wait(200)
    b.stops_speaking()
    b.transcript("")
    says = b.all(ev.Say)
    assert [s.text for s in says] == ["It is noon.", "Lunch is ready."]
    assert says[0].turn_id not in (turn, again)


def test_b41_the_rest_of_an_unfinished_reply_is_asked_for() -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.", done=False)
    b.wait(1_500)
    interrupt(b, turn, 1_500, "")
    request = b.take(ev.Request)
    assert [(m.role, m.content) for m in request.messages[-2:]] == [
        ("assistant", "It is noon. Lunch is ready."),
        ("user", "Please go on."),
    ]
    assert b.take(ev.Say).text == "Lunch is ready."
    b.none(ev.EndReply)
    b.send(ev.ReplySentence(request.turn_id, "There is soup."))
    assert b.take(ev.Say) == ev.Say(request.turn_id, 1, "There is soup.")
    b.send(ev.ReplyDone(request.turn_id))
    assert b.take(ev.EndReply)
    assert not any("go on" in content for _, content in b.messages())


@pytest.mark.parametrize("ms", [70, 90, 119])
def test_b41_a_sound_shorter_than_a_word_resumes_without_the_recogniser(ms: int) -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.")
    b.wait(300)
    b.starts_speaking()
    end = b.now + ms - 64
    b.wait(36)
    assert b.take(ev.ClearPlayout).turn_id == turn  # that it is short shows after the pause only
    b.finished(turn, 400, interrupted=True)
    b.wait(600)
    b.send(ev.SpeechEnded(end * MS, b.now * MS))
    b.none(ev.Transcribe)
    assert [s.text for s in b.all(ev.Say)] == ["It is noon.", "Lunch is ready."]


def test_a_minimum_longer_than_the_pause_lets_short_sounds_pass() -> None:
    b = Bench(replace(POLICY, barge_in_min_ns=800 * MS)).greeted()
    b.says("Tell me")
    b.replies("It is noon.", ms=2_000)
    b.wait(300)
    b.sound(150)
    b.wait(200)
    b.none(ev.ClearPlayout, ev.CancelReply, ev.Transcribe)
    assert b.state() is State.SPEAKING
    b.starts_speaking()
    b.wait(736)
    assert b.take(ev.ClearPlayout)


@pytest.mark.parametrize("clap_ms", [90, 110, 400])
@pytest.mark.parametrize("when_ms", [0, 300])
def test_b41_clap_between_turn_end_and_answer(clap_ms: int, when_ms: int) -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.wait(when_ms)
    b.sound(clap_ms)
    if transcribe := b.all(ev.Transcribe):
        b.send(ev.Transcript(transcribe[0].segment_id, ""))
    requests = b.all(ev.Request)
    assert requests[-1].messages[-1] == ev.Message("user", "What time is it?")
    turn = requests[-1].turn_id
    b.send(ev.ReplySentence(turn, "It is noon."))
    assert b.all(ev.Say)[-1] == ev.Say(turn, 0, "It is noon.")


def test_b41_clap_while_the_transcript_is_awaited() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.sound(110)
    assert b.state() is State.THINKING
    b.transcript("What time is it?", segment)
    assert b.take(ev.Request).messages[-1].content == "What time is it?"


def test_noise_in_the_greeting_resumes_the_greeting() -> None:
    b = Bench()
    b.send(ev.Answered())
    turn = b.take(ev.Say).turn_id
    b.audio(turn, 0, 1_000)
    b.starts_playing(turn)
    b.forget()
    b.wait(200)
    interrupt(b, turn, 300, "")
    assert b.state() is State.GREETING
    b.phrase(Kind.GREETING)
    assert b.messages() == [("assistant", "Hello there.")]


def test_words_in_the_greeting_are_answered() -> None:
    b = Bench()
    b.send(ev.Answered())
    turn = b.take(ev.Say).turn_id
    b.audio(turn, 0, 1_000)
    b.starts_playing(turn)
    b.forget()
    b.wait(500)
    interrupt(b, turn, 600, "What time is it?")
    messages = b.take(ev.Request).messages
    assert [(m.role, m.content) for m in messages[1:]] == [
        ("assistant", "Hello"),
        ("user", "What time is it?"),
    ]


def test_a_backchannel_as_an_answer_of_its_own_is_a_turn() -> None:
    b = Bench().greeted()
    b.says("Mm.")
    assert b.take(ev.Request).messages[-1].content == "Mm."


def test_recognition_that_fails_after_a_barge_in_is_apologised_for() -> None:
    b, turn = speaking("It is noon.")
    b.wait(300)
    b.starts_speaking()
    b.wait(400)
    b.finished(turn, 400, interrupted=True)
    b.stops_speaking()
    b.send(ev.TranscriptFailed(b.take(ev.Transcribe).segment_id))
    b.forget()
    assert b.state() is State.SPEAKING


def test_speech_that_begins_at_the_very_end_of_a_reply() -> None:
    b, turn = speaking("It is noon.")
    b.wait(980)
    b.starts_speaking()
    b.finished(turn, 1_000)  # before the minimum: the reply was heard whole
    assert b.state() is State.LISTENING
    b.wait(800)
    b.none(ev.ClearPlayout)
    b.stops_speaking()
    b.transcript("Thanks, and tomorrow?")
    assert [m.content for m in b.take(ev.Request).messages[-2:]] == [
        "It is noon.",
        "Thanks, and tomorrow?",
    ]


def test_barge_in_can_be_switched_off() -> None:
    b = Bench(replace(POLICY, barge_in=False)).greeted()
    b.says("Tell me")
    turn = b.replies("It is noon.")
    b.sound(300)
    b.none(ev.ClearPlayout, ev.Transcribe)
    b.wait(100)
    b.finished(turn, 1_000)
    assert b.state() is State.LISTENING


def test_without_barge_in_the_caller_can_still_go_on_before_the_answer() -> None:
    b = Bench(replace(POLICY, barge_in=False)).greeted()
    b.says("I would like")
    b.take(ev.Request)
    b.starts_speaking()
    b.wait(300)
    assert b.take(ev.CancelReply)
    b.stops_speaking()
    b.transcript("a pizza")
    assert b.take(ev.Request).messages[-1].content == "I would like a pizza"


def test_core_that_cuts_by_itself_is_believed() -> None:
    b, turn = speaking(TEN)
    b.wait(500)
    b.finished(turn, 500, interrupted=True)
    assert b.state() is State.LISTENING
    assert b.messages()[-1] == ("assistant", "one two three four five")
