# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what both sides said, how long answers took, what was lost, what was understood.

``make`` puts together the caller's own measurements, the agent's account of the call (the JSON
beside its recording) and the recording itself, heard again by the recogniser. Every problem found
is listed; the demo has failed if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loopcall import measure
from ..loopcall.g711 import Pcm
from .conversation import Conversation, Spoken
from .wer import WordErrors, word_errors

BARGE_IN_AIM_S = 0.2
_NEVER_STOPPED_S = 1.0
_SLACK_NS = 400_000_000  # the agent's VAD pads what it takes as speech


def make(
    conversation: Conversation,
    timeline: dict[str, Any],
    channels: Sequence[Pcm],
    reheard: Sequence[str],
    expected_turns: int,
) -> dict[str, Any]:
    """The report as written to report.json. ``channels`` and ``reheard``: caller, agent."""
    entries = timeline.get("turns", [])
    turns = [_turn(number, spoken, entries) for number, spoken in enumerate(conversation.spoken, 1)]
    problems = list(conversation.problems)
    problems += _turn_problems(turns, expected_turns)
    problems += [
        f"the {side} channel of the recording is silent"
        for side, channel in zip(("caller's", "agent's"), channels, strict=True)
        if len(measure.audible_windows(channel)) == 0
    ]
    said = " ".join(spoken.line.text for spoken in conversation.spoken)
    agent_said = " ".join(_agent_texts(entries))
    recognised = sum(
        (word_errors(turn["said"], turn["recognised"]) for turn in turns), WordErrors(0, 0)
    )
    return {
        "ok": not problems,
        "problems": problems,
        "call_s": round((conversation.ended_ns - conversation.answered_ns) / 1e9, 2),
        "transcript": _transcript(entries, conversation.answered_ns),
        "turns": turns,
        "packets": _packets(conversation, timeline),
        "word_errors": {
            "recogniser": _errors(recognised),
            "recording_caller": _errors(word_errors(said, reheard[0])),
            "recording_agent": _errors(word_errors(agent_said, reheard[1])),
        },
        "reheard": {"caller": reheard[0], "agent": reheard[1]},
        "account": timeline,
    }


def _turn(number: int, spoken: Spoken, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One line of the caller, what the agent took it for and how it answered."""
    mine = [
        index
        for index, entry in enumerate(entries)
        if entry["role"] == "caller"
        and entry["speech_start_ns"] is not None
        and spoken.first_speech_ns - _SLACK_NS <= entry["speech_start_ns"] <= spoken.last_speech_ns
    ]
    replies = [
        entry
        for entry in entries
        if entry["role"] == "agent" and entry.get("answers") in mine and entry.get("samples")
    ]
    first = replies[0] if replies else None
    return {
        "number": number,
        "said": spoken.line.text,
        "recognised": " ".join(entries[index]["text"] for index in mine),
        "answer": " ".join(entry["heard"] for entry in replies),
        "reply_s": _rounded(spoken.reply_s),
        "stages_s": _stages(spoken, [entries[index] for index in mine], first),
        "interrupts": spoken.line.interrupts,
        "silence_s": _rounded(spoken.silence_s),
        "faint_s": _rounded((spoken.active_ns - spoken.first_speech_ns) / 1e9),
        "decided_s": _since_onset(spoken, entries, "cut_ns"),
        "stopped_s": _since_onset(spoken, entries, "heard_until_ns"),
    }


def _since_onset(spoken: Spoken, entries: Sequence[dict[str, Any]], key: str) -> float | None:
    """Of an interruption: seconds from the caller's active speech to a step of the agent's turn that it cut
    off, by the agent's clock. Its last sample sent counts even if that was a pause between words,
    which the ear takes for silence already."""
    if not spoken.line.interrupts:
        return None
    cut = [
        entry
        for entry in entries
        if entry["role"] == "agent"
        and entry["interrupted"]
        and (entry["cut_ns"] or 0) >= spoken.first_speech_ns
    ]
    if not cut or cut[0][key] is None:
        return None
    return _rounded((cut[0][key] - spoken.active_ns) / 1e9)


def _stages(
    spoken: Spoken, caller: Sequence[dict[str, Any]], agent: dict[str, Any] | None
) -> dict[str, float | None]:
    """Seconds from the caller's last speech to each step, by the agent's own clock."""

    def since(time_ns: int | None) -> float | None:
        return None if time_ns is None else _rounded((time_ns - spoken.last_speech_ns) / 1e9)

    reply = agent or {}
    return {
        "transcript": since(caller[-1]["transcript_ns"] if caller else None),
        "first_token": since(reply.get("first_token_ns")),
        "first_audio": since(reply.get("first_audio_ns")),
        "first_sample": since(reply.get("first_sample_ns")),
    }


def _turn_problems(turns: Sequence[dict[str, Any]], expected: int) -> list[str]:
    found = []
    for turn in turns:
        name = f'turn {turn["number"]} ("{turn["said"]}")'
        if turn["reply_s"] is None:
            continue  # the conversation has said so
        if not turn["answer"]:
            found.append(f"{name}: the agent's own record shows no answer that was heard")
        if not turn["interrupts"]:
            continue
        if turn["silence_s"] is None:
            found.append(f"{name}: the agent was not speaking when the caller interrupted")
        elif turn["silence_s"] > _NEVER_STOPPED_S:
            found.append(f"{name}: the agent talked on for {turn['silence_s']:.2f} s")
    if len(turns) < expected:
        found.append(f"only {len(turns)} of {expected} turns were held")
    return found


def _agent_texts(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [entry["heard"] for entry in entries if entry["role"] == "agent" and entry["heard"]]


def _transcript(entries: Sequence[dict[str, Any]], start_ns: int) -> list[dict[str, Any]]:
    """Both sides in order, as the agent's memory holds them: heard words of its own only."""
    lines = []
    for entry in entries:
        agent = entry["role"] == "agent"
        time_ns = entry["first_sample_ns"] if agent else entry["speech_start_ns"]
        text = entry["heard"] if agent else entry["text"]
        if not text or time_ns is None:
            continue
        lines.append(
            {
                "at_s": _rounded((time_ns - start_ns) / 1e9),
                "who": entry["role"],
                "text": text,
                "interrupted": bool(agent and entry["interrupted"]),
            }
        )
    return sorted(lines, key=lambda line: line["at_s"])


def _packets(conversation: Conversation, timeline: dict[str, Any]) -> dict[str, Any]:
    return {"caller": conversation.packets, "agent": timeline.get("call", {}).get("stats", {})}


def _errors(errors: WordErrors) -> dict[str, Any]:
    return {"rate": round(errors.rate, 4), "errors": errors.errors, "words": errors.words}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
