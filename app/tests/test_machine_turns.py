# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns without interruptions: greeting, answers, callers who go on, late transcripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voice_edge.machine import Kind, State
from voice_edge.machine import events as ev

from .bench import MS, POLICY, Bench


def test_greeting_then_listening() -> None:
    b = Bench()
    b.send(ev.Answered())
    assert b.state() is State.GREETING
    b.phrase(Kind.GREETING)
    assert b.state() is State.LISTENING
    assert b.messages() == [("assistant", "Hello there.")]


def test_no_greeting_when_it_is_empty() -> None:
    b = Bench(replace(POLICY, greeting=""))
    b.send(ev.Answered())
    assert b.state() is State.LISTENING
    b.none(ev.Say)


def test_a_turn_is_heard_understood_and_answered() -> None:
    b = Bench().greeted()
    b.starts_speaking()
    assert b.state() is State.LISTENING
    assert b.take(ev.StartCapture)
    b.wait(900)
    b.stops_speaking()
    assert b.state() is State.THINKING
    b.transcript("What time is it?")
    request = b.take(ev.Request)
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", "You help."),
        ("assistant", "Hello there."),
        ("user", "What time is it?"),
    ]
    turn = request.turn_id
    b.send(ev.FirstToken(turn))
    b.send(ev.ReplySentence(turn, "It is noon."))
    assert b.take(ev.Say) == ev.Say(turn, 0, "It is noon.")
    b.none(ev.EndReply)
    b.send(ev.ReplySentence(turn, "Lunch time."))
    assert b.take(ev.Say) == ev.Say(turn, 1, "Lunch time.")
    b.send(ev.ReplyDone(turn))
    assert b.take(ev.EndReply) == ev.EndReply(turn)
    b.audio(turn, 0, 800)
    assert b.state() is State.THINKING
    b.starts_playing(turn)
    assert b.state() is State.SPEAKING
    b.audio(turn, 1, 700)
    b.wait(1_500)
    b.finished(turn, 1_500)
    assert b.state() is State.LISTENING
    assert b.messages()[-1] == ("assistant", "It is noon. Lunch time.")


def test_the_last_word_is_not_lost_to_rounding() -> None:
    b = Bench().greeted()
    b.says("Hi")
    turn = b.replies("One two three.")
    b.wait(1_000)
    b.send(ev.PlayoutFinished(turn, 1_000 * 8 - 400, b.now * MS, False))
    assert b.messages()[-1] == ("assistant", "One two three.")


def test_events_of_other_turns_are_ignored() -> None:
    b = Bench().greeted()
    b.says("Hi")
    turn = b.take(ev.Request).turn_id
    for event in (
        ev.ReplySentence(turn + 50, "ghost"),
        ev.ReplyFailed(turn + 50),
        ev.VoiceFailed(1, 0),
        ev.PlayoutStarted(999, 0),
        ev.PlayoutFinished(999, 10, 0, False),
        ev.Transcript(999, "ghost"),
        ev.SpeechEnded(b.now * MS, b.now * MS),
    ):
        b.send(event)
    assert b.state() is State.THINKING
    b.none(ev.Say, ev.CancelReply, ev.Transcribe)


def test_sounds_without_words_get_no_answer() -> None:
    b = Bench().greeted()
    for transcript in ("", " ", "...", "[BLANK_AUDIO]", "(coughs)", "*sigh*"):
        b.says(transcript)
        b.none(ev.Request)
        assert b.state() is State.LISTENING
    assert b.messages() == [("assistant", "Hello there.")]


def test_clicks_are_not_sent_to_the_recogniser() -> None:
    b = Bench().greeted()
    b.sound(119)
    b.none(ev.Transcribe)
    assert b.take(ev.DropCapture).segment_id == b.take(ev.StartCapture).segment_id
    b.sound(121)
    assert b.take(ev.Transcribe)


def test_speech_that_starts_twice_is_one_segment() -> None:
    b = Bench().greeted()
    b.starts_speaking()
    b.send(ev.SpeechStarted(b.now * MS, b.now * MS))
    assert len(b.all(ev.StartCapture)) == 1


# --- the caller goes on while we think ---


def test_caller_goes_on_before_the_transcript() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    first = b.take(ev.Transcribe).segment_id
    b.starts_speaking()
    b.transcript("I would like", first)
    b.none(ev.Request)
    b.wait(800)
    b.stops_speaking()
    b.none(ev.Request)
    b.transcript("a pizza please")
    assert b.take(ev.Request).messages[-1] == ev.Message("user", "I would like a pizza please")


def test_caller_goes_on_after_the_request() -> None:
    b = Bench().greeted()
    b.says("I would like")
    first = b.take(ev.Request).turn_id
    b.send(ev.ReplySentence(first, "What would you"))
    b.take(ev.Say)
    b.starts_speaking()
    b.wait(200)
    assert b.take(ev.CancelReply).turn_id == first
    b.none(ev.ClearPlayout)  # nothing was queued yet
    b.stops_speaking()
    b.transcript("a pizza")
    request = b.take(ev.Request)
    assert request.messages[-1] == ev.Message("user", "I would like a pizza")
    assert request.turn_id != first
    assert len([m for m in request.messages if m.role == "user"]) == 1


def test_queued_audio_of_the_withdrawn_answer_is_cleared() -> None:
    b = Bench().greeted()
    b.says("I would like")
    first = b.take(ev.Request).turn_id
    b.send(ev.ReplySentence(first, "What would you like?"))
    b.audio(first, 0, 900)
    b.starts_speaking()
    b.wait(200)
    assert b.take(ev.ClearPlayout).turn_id == first
    b.finished(first, 0, interrupted=True)
    b.stops_speaking()
    b.transcript("a pizza")
    assert ("assistant", "What") not in b.messages()
    assert b.take(ev.Request).messages[-1].content == "I would like a pizza"


def test_sentences_wait_while_it_is_not_clear_whether_the_caller_goes_on() -> None:
    b = Bench().greeted()
    b.says("Hello")
    turn = b.take(ev.Request).turn_id
    b.starts_speaking()
    b.send(ev.ReplySentence(turn, "Hi!"))
    b.send(ev.ReplyDone(turn))
    b.none(ev.Say)
    end = b.now
    b.send(ev.SpeechEnded((end - 10) * MS, b.now * MS))  # 54 ms: a click
    assert b.take(ev.Say).turn_id == turn
    assert b.take(ev.EndReply)
    b.none(ev.CancelReply, ev.Transcribe)


def test_very_long_speech_is_recognised_in_pieces() -> None:
    b = Bench().greeted()
    b.starts_speaking()
    first = b.take(ev.StartCapture).segment_id
    b.wait(30_000)
    assert b.take(ev.Transcribe).segment_id == first
    second = b.take(ev.StartCapture).segment_id
    # The audio of the first is taken before that of the second begins.
    assert b.state() is State.LISTENING
    b.transcript("Once upon a time", first)
    b.none(ev.Request)
    b.wait(15_000)
    b.stops_speaking()
    assert b.take(ev.Transcribe).segment_id == second
    b.transcript("there was a king", second)
    assert b.take(ev.Request).messages[-1].content == "Once upon a time there was a king"
    b.wait(14_000)
    b.none(ev.Transcribe, ev.StartCapture)


def test_the_end_of_long_speech_may_be_too_short_for_words() -> None:
    b = Bench().greeted()
    b.starts_speaking()
    b.wait(30_000)
    first = b.take(ev.Transcribe).segment_id
    b.wait(50)
    b.stops_speaking()
    b.none(ev.Transcribe)
    b.transcript("Once upon a time", first)
    assert b.take(ev.Request)


# --- B39: late transcripts ---


@pytest.mark.parametrize("late_ms", [100, 500, 1_000, 3_000])
def test_late_transcript_joins_its_turn_with_one_request(late_ms: int) -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(late_ms)
    b.none(ev.Say, ev.Request)
    b.transcript("What time is it?", segment)
    assert len(b.all(ev.Request)) == 1
    b.transcript("What time is it?", segment)  # a second final changes nothing
    assert len(b.all(ev.Request)) == 1
    b.none(ev.CancelReply)


def test_transcripts_out_of_order_keep_the_order_of_speech() -> None:
    b = Bench().greeted()
    b.sound(500)
    first = b.take(ev.Transcribe).segment_id
    b.sound(500)
    b.transcript("a pizza")
    b.none(ev.Request)
    b.transcript("I would like", first)
    assert b.take(ev.Request).messages[-1].content == "I would like a pizza"


def test_recogniser_that_hangs_leads_to_the_apology_and_its_late_words_are_answered() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    say = b.take(ev.Say)
    assert say.text == "Sorry about that."
    b.audio(say.turn_id, 0, 1_000)
    b.starts_playing(say.turn_id)
    b.forget()
    b.wait(600)
    b.transcript("What time is it?", segment)
    assert b.take(ev.ClearPlayout).turn_id == say.turn_id
    b.none(ev.Request)
    b.finished(say.turn_id, 610, interrupted=True)
    messages = b.take(ev.Request).messages
    assert messages[-1] == ev.Message("assistant", "Sorry")  # as far as it was heard
    assert ("user", "What time is it?") in [(m.role, m.content) for m in messages]


def test_late_words_join_the_turn_the_caller_is_in() -> None:
    b = Bench(replace(POLICY, greeting=""))
    b.send(ev.Answered())
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    b.phrase(Kind.APOLOGY)
    b.forget()
    b.sound(700)
    b.transcript("I would like", segment)
    b.none(ev.Request)
    b.transcript("a pizza")
    assert b.messages()[-1] == ("user", "I would like a pizza")
    assert len(b.all(ev.Request)) == 1
