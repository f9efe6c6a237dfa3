# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's report, from a call that never took place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voice_edge.demo import report, table
from voice_edge.demo.conversation import Conversation, Spoken
from voice_edge.demo.dialogue import Line
from voice_edge.loopcall.g711 import Pcm

S = 1_000_000_000
SOUND: Pcm = (8000 * np.sin(np.arange(8000) / 3)).astype(np.int16)
SILENCE: Pcm = np.zeros(8000, dtype=np.int16)


def line(text: str, interrupts: bool = False) -> Line:
    return Line("sound", text, ("x",), "reply", interrupts)


def call() -> Conversation:
    """Two turns: one answered after 1.2 s, one that interrupts that answer."""
    return Conversation(
        answered_ns=100 * S,
        ended_ns=130 * S,
        spoken=[
            Spoken(
                line("Something is wrong."),
                105 * S,
                int(105.1 * S),
                107 * S,
                reply_ns=int(108.2 * S),
            ),
            Spoken(
                line("Stop.", True),
                int(109.98 * S),
                110 * S,
                111 * S,
                reply_ns=112 * S,
                silence_s=0.15,
            ),
        ],
        packets={"sent": 1500, "received": 1490, "lost": 0, "jitter_ms": 0.12},
    )


def caller_turn(text: str, start: float, end: float) -> dict[str, Any]:
    return {
        "role": "caller",
        "text": text,
        "speech_start_ns": int(start * S),
        "speech_end_ns": int(end * S),
        "transcript_ns": int((end + 0.9) * S),
        "failed": False,
    }


def agent_turn(
    text: str, answers: int | None, start: float, interrupted: bool = False
) -> dict[str, Any]:
    return {
        "role": "agent",
        "turn_id": 1,
        "kind": "reply",
        "text": text + " And more.",
        "heard": text,
        "answers": answers,
        "resumes": None,
        "requested_ns": int((start - 0.3) * S),
        "first_token_ns": int((start - 0.2) * S),
        "first_audio_ns": int((start - 0.1) * S),
        "first_sample_ns": int(start * S),
        "cut_ns": int(110.12 * S) if interrupted else None,
        "heard_until_ns": int(110.14 * S) if interrupted else int((start + 2) * S),
        "samples": 16000,
        "interrupted": interrupted,
        "latency_ms": 1.0,
    }


def timeline() -> dict[str, Any]:
    turns = [
        agent_turn("Hello.", None, 101),
        caller_turn("Something is long.", 104.9, 107.1),
        agent_turn("Oh dear.", 1, 108.1, interrupted=True),
        caller_turn("Stop.", 109.8, 111.0),
        agent_turn("As you like.", 3, 111.9),
    ]
    stats = {"rx_packets": 1499, "rx_lost": 1, "tx_packets": 1490, "jitter_ms": 0.3}
    return {"version": 1, "call": {"stats": stats}, "turns": turns}


def made(change: Callable[[Conversation, dict[str, Any]], None] | None = None) -> dict[str, Any]:
    conversation, account = call(), timeline()
    if change is not None:
        change(conversation, account)
    texts = ("Something is wrong. Stop!", "Hello. Oh dear! As you like it.")
    return report.make(conversation, account, [SOUND, SOUND], texts, 2)


def test_a_good_call() -> None:
    result = made()
    assert (result["ok"], result["problems"]) == (True, [])
    first, second = result["turns"]
    assert (first["reply_s"], second["reply_s"]) == (1.2, 1.0)
    assert first["recognised"] == "Something is long."
    assert first["answer"] == "Oh dear."
    assert first["stages_s"] == {
        "transcript": 1.0,
        "first_token": 0.9,
        "first_audio": 1.0,
        "first_sample": 1.1,
    }
    assert (second["silence_s"], second["decided_s"], second["stopped_s"]) == (0.15, 0.12, 0.14)
    assert first["stopped_s"] is None
    errors = result["word_errors"]
    assert errors["recogniser"] == {"rate": 0.25, "errors": 1, "words": 4}
    assert errors["recording_caller"]["errors"] == 0
    assert errors["recording_agent"] == {"rate": 0.1667, "errors": 1, "words": 6}
    assert [entry["who"] for entry in result["transcript"]] == [
        "agent",
        "caller",
        "agent",
        "caller",
        "agent",
    ]
    assert [entry["at_s"] for entry in result["transcript"]] == [1.0, 4.9, 8.1, 9.8, 11.9]


def unanswered(conversation: Conversation, _: dict[str, Any]) -> None:
    conversation.problems.append('turn 1 ("x") went unanswered for 30 s')
    conversation.spoken = conversation.spoken[:1]
    conversation.spoken[0].reply_ns = None


def unheard(_: Conversation, account: dict[str, Any]) -> None:
    account["turns"][4]["samples"] = 0


def not_interrupted(conversation: Conversation, _: dict[str, Any]) -> None:
    conversation.spoken[1].silence_s = None


def talked_on(conversation: Conversation, _: dict[str, Any]) -> None:
    conversation.spoken[1].silence_s = 1.4


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (unanswered, "went unanswered"),
        (unanswered, "only 1 of 2"),
        (unheard, "no answer that was heard"),
        (not_interrupted, "was not speaking"),
        (talked_on, "talked on for 1.40 s"),
    ],
)
def test_what_fails_a_demo(
    change: Callable[[Conversation, dict[str, Any]], None], word: str
) -> None:
    result = made(change)
    assert not result["ok"]
    assert any(word in problem for problem in result["problems"]), result["problems"]
    assert "FAILED" in table.render(result, Path("out"))


@pytest.mark.parametrize(("silent", "side"), [(0, "caller's"), (1, "agent's")])
def test_a_silent_channel_fails_a_demo(silent: int, side: str) -> None:
    channels = [SOUND, SOUND]
    channels[silent] = SILENCE
    result = report.make(call(), timeline(), channels, ("", ""), 2)
    assert result["problems"] == [f"the {side} channel of the recording is silent"]


def test_the_summary_shows_everything_asked_for() -> None:
    text = table.render(made(), Path("out/demo"))
    for wanted in (
        "Something is long.",
        "Oh dear. — (interrupted)",
        "1.20",  # reply time
        "150 ms after the caller's speech began (within the aim of 200 ms)",
        "decided after 120 ms and sent the last sample of that reply after 140 ms",
        "25.0 %",
        "1499",
        "out/demo/call.wav",
        "OK: all 2 turns were answered.",
    ):
        assert wanted in text, wanted
    assert max(map(len, text.splitlines())) <= 120


def test_the_readme_shows_what_is_printed() -> None:
    """Its sample has the headings and the verdict as they are, so that it cannot lag behind unnoticed."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    sample = readme.partition("```text\n")[2].partition("```")[0].splitlines()
    printed = table.render(made(), Path("out/demo")).splitlines()
    headings = [line for line in sample if line[:1].isalpha() and "  " not in line]
    assert len(headings) >= 4
    for heading in headings:
        assert any(heading.split(":")[0] == line.split(":")[0] for line in printed), heading


def test_columns_line_up() -> None:
    assert table.columns([["a", "bb"], ["ccc", "d"]]) == ["  a    bb", "  ccc   d"]
