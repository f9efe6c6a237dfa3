# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left over from one turn must not reach into the next; events that cross each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voice_edge.machine import AgentTurn, Kind, State
from voice_edge.machine import events as ev

from .bench import MS, POLICY, Bench

TEN = "one two three four five six seven eight nine ten"


def turn_of(b: Bench, turn_id: int) -> AgentTurn:
    turns = b.machine.history.turns
    return next(t for t in turns if isinstance(t, AgentTurn) and t.id == turn_id)


def cut(b: Bench, turn: int, heard_ms: int) -> None:
    """The caller speaks for 400 ms into the agent's turn; a transcript is asked for."""
    b.starts_speaking()
    b.wait(336)
    b.finished(turn, heard_ms, interrupted=True)
    b.stops_speaking()


def speaking(*sentences: str, ms: int = 1_000, done: bool = True) -> tuple[Bench, int]:
    b = Bench().greeted()
    b.says("Tell me")
    return b, b.replies(*sentences, ms=ms, done=done)


def test_words_after_noise_are_a_turn() -> None:
    b = Bench().greeted()
    b.says("")
    b.says("What time is it?")
    assert b.take(ev.Request).messages[-1] == ev.Message("user", "What time is it?")


def test_a_reply_that_was_cut_by_words_is_never_resumed() -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.")
    b.wait(500)
    cut(b, turn, 600)
    b.transcript("And tomorrow?")
    again = b.replies("Tomorrow too.")
    b.wait(1_000)
    b.finished(again, 1_000)
    b.says("")
    b.none(ev.Say)
    assert b.state() is State.LISTENING


def test_a_reply_that_was_cut_before_an_apology_is_never_resumed() -> None:
    b, turn = speaking("It is noon.", "Lunch is ready.")
    b.wait(500)
    cut(b, turn, 600)
    b.send(ev.TranscriptFailed(b.take(ev.Transcribe).segment_id))
    b.phrase(Kind.APOLOGY)
    b.forget()
    b.says("")
    b.none(ev.Say)


def test_noise_after_the_last_word_resumes_nothing() -> None:
    b, turn = speaking("It is noon.")
    b.wait(990)
    b.starts_speaking()
    b.wait(336)
    b.finished(turn, 1_000, interrupted=True)  # all of it, and the cut came a moment later
    b.stops_speaking()
    b.transcript("")
    b.none(ev.Say)
    assert b.state() is State.LISTENING
    assert len([t for t in b.machine.history.turns if isinstance(t, AgentTurn)]) == 2


def test_a_resumption_that_nobody_hears_keeps_what_was_heard_before() -> None:
    b, turn = speaking(TEN, done=False)
    b.wait(500)
    cut(b, turn, 500)
    b.transcript("")
    again = b.take(ev.Request).turn_id
    assert turn_of(b, again).requested_ns == b.now * MS
    b.starts_speaking()
    b.wait(900)
    b.stops_speaking()
    b.transcript("Stop")
    assert [(m.role, m.content) for m in b.take(ev.Request).messages[-2:]] == [
        ("assistant", "one two three four five"),
        ("user", "Stop"),
    ]


def test_a_continuation_without_anything_more_is_no_failure() -> None:
    b, turn = speaking("It is noon.", done=False)
    b.wait(990)
    b.starts_speaking()
    b.wait(336)
    b.finished(turn, 1_000, interrupted=True)
    b.stops_speaking()
    b.transcript("")
    again = b.take(ev.Request).turn_id
    b.send(ev.ReplyDone(again))
    b.none(ev.Say)
    assert again in [c.turn_id for c in b.all(ev.CancelReply)]
    assert b.state() is State.LISTENING
    b.says("Thanks")
    assert b.all(ev.Request)


def test_apology_that_could_not_be_said_is_not_in_the_way() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.send(ev.ReplyFailed(b.take(ev.Request).turn_id))
    apology = b.take(ev.Say).turn_id
    b.forget()
    b.send(ev.VoiceFailed(apology, 0))
    assert b.take(ev.CancelReply).turn_id == apology
    b.says("What time is it?")
    assert b.take(ev.Request)


def test_playout_that_starts_after_its_turn_was_cut() -> None:
    b = Bench().greeted()
    b.says("I would like")
    first = b.take(ev.Request).turn_id
    b.send(ev.ReplySentence(first, "What?"))
    b.audio(first, 0, 500)
    b.starts_speaking()
    b.wait(100)
    b.starts_playing(first)  # on its way while we cut
    assert b.state() is State.LISTENING
    b.finished(first, 20, interrupted=True)
    b.stops_speaking()
    b.transcript("a pizza")
    # Too little of it was heard to be a word: still one turn of the caller.
    assert b.take(ev.Request).messages[-1].content == "I would like a pizza"


def test_the_count_of_a_cut_turn_does_not_end_the_next_one() -> None:
    b = Bench(replace(POLICY, max_call_ns=20_000 * MS)).greeted()
    b.says("Tell me")
    turn = b.replies(TEN, ms=60_000)
    b.until(20_000)
    goodbye = b.take(ev.Say).turn_id
    b.audio(goodbye, 0, 1_000)
    b.starts_playing(goodbye)
    b.finished(turn, 5_000, interrupted=True)
    assert b.state() is State.SPEAKING
    b.none(ev.Hangup)
    b.wait(1_000)
    b.finished(goodbye, 1_000)
    assert b.take(ev.Hangup)


def test_farewell_cuts_what_is_said_and_is_said_once() -> None:
    b, turn = speaking(TEN, ms=60_000)
    b.starts_playing(turn)
    b.send(ev.Farewell())
    assert b.take(ev.ClearPlayout).turn_id == turn
    goodbye = b.take(ev.Say)
    assert goodbye.text == POLICY.goodbye
    b.send(ev.Farewell())
    b.none(ev.Say)
    b.audio(goodbye.turn_id, 0, 500)
    b.starts_playing(goodbye.turn_id)
    b.finished(turn, 100, interrupted=True)
    b.wait(500)
    b.finished(goodbye.turn_id, 500)
    assert b.take(ev.Hangup).cause == "goodbye"


def test_sentences_held_back_go_on_once_the_reply_is_audible() -> None:
    b = Bench().greeted()
    b.says("Tell me")
    turn = b.take(ev.Request).turn_id
    b.send(ev.ReplySentence(turn, "One."))
    b.audio(turn, 0, 500)
    b.starts_speaking()
    b.send(ev.ReplySentence(turn, "Two."))
    assert [s.index for s in b.all(ev.Say)] == [0]
    b.starts_playing(turn)
    assert [s.index for s in b.all(ev.Say)] == [0, 1]


def test_caller_who_speaks_when_the_call_has_lasted_too_long() -> None:
    b = Bench(replace(POLICY, max_call_ns=20_000 * MS)).greeted()
    b.until(19_500)
    b.forget()
    b.starts_speaking()
    segment = b.take(ev.StartCapture).segment_id
    b.until(20_000)
    assert b.take(ev.DropCapture).segment_id == segment
    b.stops_speaking()
    b.none(ev.Transcribe)
    b.phrase(Kind.GOODBYE)


def test_goodbye_is_said_once() -> None:
    b = Bench(replace(POLICY, max_call_ns=35_000 * MS)).greeted()
    b.wait(10_000)
    b.phrase(Kind.REPROMPT)
    b.wait(10_000)
    say = b.take(ev.Say)
    b.audio(say.turn_id, 0, 20_000)
    b.starts_playing(say.turn_id)
    b.until(40_000)
    b.none(ev.Say, ev.ClearPlayout)


def test_late_words_while_we_listen_are_answered_in_peace() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    b.phrase(Kind.APOLOGY)
    b.wait(5_000)
    b.forget()
    b.transcript("What time is it?", segment)
    assert b.state() is State.THINKING
    turn = b.replies("It is noon.", ms=30_000)
    b.wait(20_000)  # no reprompt into the answer
    b.none(ev.Say, ev.ClearPlayout)
    assert b.state() is State.SPEAKING
    b.wait(10_000)
    b.finished(turn, 30_000)
    assert b.state() is State.LISTENING


def test_late_words_into_the_reprompt_are_answered() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    b.phrase(Kind.APOLOGY)
    b.wait(10_000)
    reprompt = b.take(ev.Say).turn_id
    b.transcript("What time is it?", segment)
    assert b.take(ev.CancelReply).turn_id == reprompt
    assert b.take(ev.Request)


def test_late_words_behind_a_later_answer_stay_at_their_place() -> None:
    b = Bench(replace(POLICY, greeting=""))
    b.send(ev.Answered())
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    b.phrase(Kind.APOLOGY)
    b.says("Hello?")
    b.replies("Hello.")
    b.transcript("What time is it?", segment)
    b.none(ev.CancelReply, ev.Request)
    assert b.messages()[0] == ("user", "What time is it?")


def test_late_sounds_without_words_change_nothing() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    segment = b.take(ev.Transcribe).segment_id
    b.wait(11_000)
    say = b.take(ev.Say)
    b.audio(say.turn_id, 0, 1_000)
    b.starts_playing(say.turn_id)
    b.forget()
    b.transcript("", segment)
    assert b.actions == []
    assert b.state() is State.SPEAKING


def test_words_that_come_after_the_request_was_made_without_them() -> None:
    b = Bench().greeted()
    b.sound(500)
    first = b.take(ev.Transcribe).segment_id
    b.send(ev.TranscriptFailed(first))  # the apology begins …
    apology = b.take(ev.Say).turn_id
    b.audio(apology, 0, 1_000)
    b.starts_playing(apology)
    b.starts_speaking()
    b.wait(336)
    b.finished(apology, 400, interrupted=True)
    b.stops_speaking()
    b.transcript("a pizza")
    made = b.take(ev.Request).turn_id
    b.forget()
    b.transcript("I would like", first)
    assert b.take(ev.CancelReply).turn_id == made
    assert b.take(ev.Request).messages[-1].content.endswith("I would like a pizza")
    assert sum("I would like" in content for _, content in b.messages()) == 1


@pytest.mark.parametrize("complete", [True, False])
def test_playout_that_never_ends(complete: bool) -> None:
    b = Bench().greeted()
    b.says("Tell me")
    turn = b.replies("Hello.", done=complete)
    b.wait(61_000)
    assert b.take(ev.ClearPlayout).turn_id == turn
    if complete:
        assert b.state() is State.LISTENING
    else:
        b.phrase(Kind.APOLOGY)


def test_hangup_for_dead_media_silences_the_agent() -> None:
    b, turn = speaking(TEN)
    b.wait(500)
    b.send(ev.MediaTimeout(30.0))
    assert b.take(ev.CancelReply).turn_id == turn
    assert b.take(ev.ClearPlayout).turn_id == turn
    assert b.take(ev.Hangup)


def test_the_cores_count_wins_over_the_clock_even_after_the_end() -> None:
    b, turn = speaking(TEN)
    b.wait(800)
    b.send(ev.CallEnded(200, "Bye", True))
    assert turn_of(b, turn).interrupted
    assert turn_of(b, turn).samples == 800 * 8
    b.finished(turn, 500, interrupted=True)
    assert b.messages()[-1] == ("assistant", "one two three four five")
    b.finished(turn, 900, interrupted=True)
    assert turn_of(b, turn).samples == 500 * 8


def test_core_that_cuts_by_itself_stops_the_servers_too() -> None:
    b, turn = speaking(TEN, done=False)
    b.wait(500)
    b.finished(turn, 500, interrupted=True)
    assert b.take(ev.CancelReply).turn_id == turn
    assert turn_of(b, turn).interrupted


def test_state_follows_a_caller_who_goes_on() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    assert b.state() is State.THINKING
    b.starts_speaking()
    assert b.state() is State.LISTENING
