# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that fail, callers who keep silent, and every way a call ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voice_edge.machine import Kind, State
from voice_edge.machine import events as ev

from .bench import MS, POLICY, Bench

# --- servers that fail ---


def test_failed_recognition_is_apologised_for() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    b.send(ev.TranscriptFailed(b.take(ev.Transcribe).segment_id))
    b.phrase(Kind.APOLOGY)
    assert b.state() is State.LISTENING
    b.says("Hello?")
    assert b.take(ev.Request)


def test_failed_model_is_apologised_for_and_the_question_is_remembered() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
    assert b.state() is State.SPEAKING
    b.phrase(Kind.APOLOGY)
    assert b.state() is State.LISTENING
    assert ("user", "What time is it?") in b.messages()


def test_empty_reply_counts_as_failed() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.send(ev.ReplyDone(b.take(ev.Request).turn_id))
    b.phrase(Kind.APOLOGY)


def test_model_that_fails_half_way_is_heard_as_far_as_it_came() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.replies("It is noon.", done=False)
    b.send(ev.ReplyFailed(turn))
    assert b.take(ev.EndReply).turn_id == turn
    b.wait(1_000)
    b.finished(turn, 1_000)
    assert ("assistant", "It is noon.") in b.messages()
    b.phrase(Kind.APOLOGY)


def test_failed_voice_before_any_sound() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.take(ev.Request).turn_id
    b.send(ev.ReplySentence(turn, "It is noon."))
    b.forget()
    b.send(ev.VoiceFailed(turn, 0))
    assert b.take(ev.CancelReply).turn_id == turn
    b.phrase(Kind.APOLOGY)
    assert ("assistant", "It is noon.") not in b.messages()


def test_failed_voice_in_the_middle() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.replies("It is noon.", done=False)
    b.send(ev.ReplySentence(turn, "Lunch time."))
    b.forget()
    b.send(ev.VoiceFailed(turn, 1))
    assert b.take(ev.CancelReply).turn_id == turn
    assert b.take(ev.FinishPlayout).turn_id == turn
    b.none(ev.ClearPlayout)
    b.wait(1_000)
    b.finished(turn, 1_000)
    assert b.messages()[-1] == ("assistant", "It is noon.")
    b.phrase(Kind.APOLOGY)


def test_nothing_audible_within_the_deadline() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.take(ev.Request).turn_id
    b.wait(14_999)
    b.none(ev.CancelReply)
    b.wait(1)
    assert b.take(ev.CancelReply).turn_id == turn
    b.phrase(Kind.APOLOGY)


def test_apology_that_cannot_be_said_leaves_us_listening() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
    b.send(ev.VoiceFailed(b.take(ev.Say).turn_id, 0))
    assert b.state() is State.LISTENING


def test_goodbye_after_failures_in_a_row() -> None:
    b = Bench().greeted()
    for _ in range(2):
        b.says("What time is it?")
        b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
        b.phrase(Kind.APOLOGY)
        b.forget()
    b.says("What time is it?")
    b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
    b.phrase(Kind.GOODBYE)
    assert b.take(ev.Hangup).cause == "goodbye"


def test_an_answer_forgives_the_failures_before() -> None:
    b = Bench().greeted()
    for _ in range(4):
        b.says("What time is it?")
        b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
        b.phrase(Kind.APOLOGY)
        b.forget()
        b.says("Once more?")
        turn = b.replies("It is noon.")
        b.wait(1_000)
        b.finished(turn, 1_000)
        b.forget()
    assert b.state() is State.LISTENING


# --- silence, length, end ---


def test_silence_leads_to_reprompt_goodbye_and_hangup() -> None:
    b = Bench().greeted()
    b.wait(9_999)
    b.none(ev.Say)
    b.wait(1)
    b.phrase(Kind.REPROMPT)
    b.wait(10_000)
    assert b.state() is State.SPEAKING
    b.phrase(Kind.GOODBYE)
    assert b.take(ev.Hangup).cause == "goodbye"
    assert b.state() is State.ENDED
    assert b.machine.next_deadline() is None


def test_words_renew_the_reprompts_and_noise_does_not() -> None:
    b = Bench().greeted()
    b.wait(10_000)
    b.phrase(Kind.REPROMPT)
    b.says("Yes, what time is it?")
    turn = b.replies("Noon.")
    b.wait(1_000)
    b.finished(turn, 1_000)
    b.wait(10_000)
    b.phrase(Kind.REPROMPT)
    b.says("")
    b.wait(10_000)
    b.phrase(Kind.GOODBYE)


def test_no_reprompt_while_the_caller_speaks_or_we_think() -> None:
    b = Bench().greeted()
    b.wait(9_900)
    b.sound(20_000)
    b.none(ev.Say)
    b.transcript("A long story")
    b.wait(12_000)
    b.none(ev.Say)


def test_longest_call_ends_with_goodbye_whatever_happens() -> None:
    b = Bench(replace(POLICY, max_call_ns=20_000 * MS)).greeted()
    b.says("Tell me everything")
    turn = b.replies("Well.", "It is long.", ms=30_000)
    b.until(20_000)
    assert b.take(ev.ClearPlayout).turn_id == turn
    b.finished(turn, 15_000, interrupted=True)
    b.starts_speaking()  # into the goodbye: it is not stopped
    b.wait(300)
    b.phrase(Kind.GOODBYE)
    assert b.take(ev.Hangup).cause == "goodbye"


@pytest.mark.parametrize("voice_fails", [True, False])
def test_goodbye_that_cannot_be_said_still_hangs_up(voice_fails: bool) -> None:
    b = Bench(replace(POLICY, max_call_ns=20_000 * MS)).greeted()
    b.says("Hi")  # cut short by the length of the call
    b.until(20_000)
    goodbye = [s for s in b.all(ev.Say) if s.text == "Goodbye now."]
    assert len(goodbye) == 1
    if voice_fails:
        b.send(ev.VoiceFailed(goodbye[0].turn_id, 0))
    else:
        b.wait(15_000)
    assert b.take(ev.Hangup)


def test_playout_that_never_ends_does_not_hold_the_call_for_ever() -> None:
    b = Bench().greeted()
    b.says("Hi")
    turn = b.replies("Hello.")
    b.wait(61_000)
    assert turn in [a.turn_id for a in b.all(ev.ClearPlayout)]
    assert b.state() is not State.ENDED


def test_dead_media_hangs_up() -> None:
    b = Bench().greeted()
    b.send(ev.MediaTimeout(30.0))
    assert b.take(ev.Hangup).cause == "media_timeout"


@pytest.mark.parametrize("event", [ev.CallEnded(200, "Bye", True), ev.Shutdown()])
def test_end_in_mid_sentence_settles_what_was_heard(event: ev.Event) -> None:
    b = Bench().greeted()
    b.says("Hi")
    turn = b.replies("One two three four five six seven eight nine ten.")
    b.wait(500)
    b.send(event)
    assert b.take(ev.CancelReply).turn_id == turn
    assert b.state() is State.ENDED
    assert b.machine.next_deadline() is None
    assert b.messages()[-1] == ("assistant", "One two three four five")
    b.forget()
    b.send(ev.Transcript(1, "late"))
    b.send(ev.Tick())
    assert b.actions == []


def test_history_is_limited_but_keeps_the_system_prompt() -> None:
    b = Bench(replace(POLICY, history_turns=4)).greeted()
    for number in range(5):
        b.says(f"Question {number}")
        turn = b.replies(f"Answer {number}.")
        b.wait(1_000)
        b.finished(turn, 1_000)
        b.forget()
    messages = b.machine.history.messages()
    assert messages[0].role == "system"
    assert [m.content for m in messages[1:]] == [
        "Question 3",
        "Answer 3.",
        "Question 4",
        "Answer 4.",
    ]
