# SPDX-License-Identifier: GPL-3.0-or-later
"""The silence guard: what is said, and when, while an answer does not come."""

from __future__ import annotations

from dataclasses import replace

from voice_edge.machine import Kind, State
from voice_edge.machine import events as ev

from .bench import MS, POLICY, Bench


def fill(b: Bench, ms: int = 800) -> int:
    """The filler that must be asked for now is said to its end."""
    turn = starts_filling(b, ms)
    b.wait(ms)
    b.finished(turn, ms)
    return turn


def starts_filling(b: Bench, ms: int = 800) -> int:
    asked = b.take(ev.Fill)
    assert asked.text == "One moment."
    b.audio(asked.turn_id, 0, ms)
    b.starts_playing(asked.turn_id)
    return asked.turn_id


def waited(b: Bench) -> int:
    """Milliseconds since the caller's last speech."""
    end = max(s.end_ns or 0 for t in b.machine.history.turns for s in getattr(t, "segments", ()))
    return b.now - end // MS


def test_recognition_that_hangs_is_filled_after_two_seconds_of_silence() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    b.wait(1_399)
    b.none(ev.Fill)
    b.wait(1)
    assert waited(b) == 2_000
    fill(b)
    b.wait(1_999)
    b.none(ev.Fill)
    b.wait(1)
    fill(b)
    b.transcript("What time is it?")
    turn = b.replies("It is noon.")
    b.wait(1_000)
    b.finished(turn, 1_000)
    assert b.state() is State.LISTENING
    assert b.messages()[-2:] == [("user", "What time is it?"), ("assistant", "It is noon.")]


def test_the_silence_is_one_whatever_it_is_made_of() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    b.wait(900)
    b.transcript("What time is it?")
    b.wait(400)
    b.send(ev.FirstToken(b.take(ev.Request).turn_id))
    b.none(ev.Fill)
    b.wait(100)
    assert waited(b) == 2_000
    fill(b)


def test_an_answer_in_time_has_no_filler() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.wait(1_300)
    turn = b.replies("It is noon.", ms=3_000)
    b.wait(3_000)
    b.finished(turn, 3_000)
    b.wait(5_000)
    b.none(ev.Fill)


def test_the_filler_is_no_part_of_the_memory_but_of_the_account() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.wait(2_000)
    fill(b)
    assert ("assistant", "One moment.") not in b.messages()
    filler = b.machine.history.turns[-1]
    assert getattr(filler, "kind", None) is Kind.FILLER
    assert getattr(filler, "heard", None) == "One moment."


def test_a_caller_who_goes_on_silences_filler_and_answer() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    reply = b.take(ev.Request).turn_id
    b.wait(2_000)
    filler = starts_filling(b)
    b.starts_speaking()
    b.wait(100)
    assert b.take(ev.CancelReply).turn_id == reply
    assert b.take(ev.ClearPlayout).turn_id == filler
    b.finished(filler, 160, interrupted=True)
    b.wait(900)
    b.stops_speaking()
    b.transcript("In Rome, I mean.")
    asked = b.take(ev.Request)
    assert asked.messages[-1].content == "What time is it? In Rome, I mean."


def test_a_caller_who_goes_on_before_recognition_silences_the_filler() -> None:
    b = Bench().greeted()
    b.sound(1_000)
    b.wait(1_500)
    filler = starts_filling(b)
    b.starts_speaking()
    assert b.take(ev.ClearPlayout).turn_id == filler
    b.none(ev.Fill)


def test_a_cough_starts_the_wait_again() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.wait(500)
    b.sound(100)
    b.wait(1_399)
    b.none(ev.Fill)
    b.wait(1)
    assert b.take(ev.Fill)


def test_without_fillers_there_is_silence_until_the_deadline() -> None:
    b = Bench(replace(POLICY, fillers=())).greeted()
    b.says("What time is it?")
    b.wait(14_999)
    b.none(ev.Fill, ev.Say)
    b.wait(1)
    b.phrase(Kind.APOLOGY)


def test_a_filler_that_is_not_cached_is_not_waited_for() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    b.wait(2_000)
    b.send(ev.VoiceFailed(b.take(ev.Fill).turn_id, 0))
    turn = b.replies("It is noon.")
    b.wait(1_000)
    b.finished(turn, 1_000)
    assert b.messages()[-1] == ("assistant", "It is noon.")


def test_an_answer_that_stops_is_broken_off_and_apologised_for() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.replies("It is noon.", ms=1_500, done=False)
    b.wait(3_499)
    b.none(ev.CancelReply)
    b.wait(1)
    assert b.take(ev.CancelReply).turn_id == turn
    assert b.take(ev.FinishPlayout).turn_id == turn
    b.finished(turn, 1_500)
    b.phrase(Kind.APOLOGY)
    assert ("assistant", "It is noon. Sorry about that.") in b.messages()


def test_a_voice_slower_than_speech_is_no_silence() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.replies("One.", done=False)
    for index in range(1, 10):  # 1.5 s of silence before each further second
        b.wait(2_500)
        b.send(ev.ReplySentence(turn, "More."))
        b.audio(turn, index, 1_000)
    b.none(ev.CancelReply)


def test_a_long_sentence_that_is_queued_is_no_silence() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.replies("It is noon.", ms=20_000)
    b.wait(25_000)
    b.none(ev.CancelReply)
    b.finished(turn, 20_000)
    assert b.state() is State.LISTENING


def test_the_filler_of_a_turn_that_was_apologised_for_is_forgotten() -> None:
    b = Bench().greeted()
    b.says("What time is it?")
    turn = b.take(ev.Request).turn_id
    b.wait(2_000)
    filler = starts_filling(b)
    b.send(ev.ReplyFailed(turn))
    b.wait(800)
    b.finished(filler, 800)
    b.phrase(Kind.APOLOGY)
    assert b.state() is State.LISTENING
    b.wait(9_000)
    b.none(ev.Fill)
