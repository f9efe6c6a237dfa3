# SPDX-License-Identifier: GPL-3.0-or-later
"""The report for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .report import BARGE_IN_AIM_S

_WIDTH = 78


def render(report: dict[str, Any], folder: Path) -> str:
    """The summary printed at the end of a demo."""
    parts = [
        "What was said (the caller as recognised, the agent as far as it was heard)",
        *_transcript(report["transcript"]),
        "",
        "Seconds from the caller's last speech on the wire to …",
        *_turns(report["turns"]),
        *_barge_in(report["turns"]),
        "",
        "RTP packets",
        *_packets(report["packets"]),
        "",
        "Word error rate",
        *_word_errors(report["word_errors"]),
        "",
        f"Recording   {folder / 'call.wav'} (left caller, right agent, {report['call_s']:.1f} s)",
        f"Report      {folder / 'report.json'}",
    ]
    if report["problems"]:
        parts += ["", "FAILED", *(f"  - {problem}" for problem in report["problems"])]
    else:
        parts += ["", f"OK: all {len(report['turns'])} turns were answered."]
    return "\n".join(parts)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with aligned columns: the first one left, the others right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _transcript(lines: Sequence[dict[str, Any]]) -> list[str]:
    out = []
    for line in lines:
        head = f"  {line['at_s']:6.1f} s  {line['who']:<6}  "
        text = line["text"] + (" — (interrupted)" if line["interrupted"] else "")
        out += textwrap.wrap(
            text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
        ) or [head]
    return out


def _turns(turns: Sequence[dict[str, Any]]) -> list[str]:
    rows = [["turn", "transcript", "1st token", "1st audio", "sent", "heard by the caller"]]
    for turn in turns:
        stages = turn["stages_s"]
        names = ("transcript", "first_token", "first_audio", "first_sample")
        said = f"{turn['number']}  {turn['said']}"
        rows.append([said, *(_seconds(stages[name]) for name in names), _seconds(turn["reply_s"])])
    return columns(rows)


def _barge_in(turns: Sequence[dict[str, Any]]) -> list[str]:
    out = []
    for turn in turns:
        if not turn["interrupts"] or turn["silence_s"] is None:
            continue
        took = max(turn["silence_s"], turn["stopped_s"] or 0.0)
        verdict = "within" if took <= BARGE_IN_AIM_S else "over"
        out.append(
            f"  turn {turn['number']} interrupts: the agent fell silent"
            f" {turn['silence_s'] * 1000:.0f} ms after the caller's speech began"
            f" ({verdict} the aim of {BARGE_IN_AIM_S * 1000:.0f} ms)"
        )
        if turn["decided_s"] is not None and turn["stopped_s"] is not None:
            out.append(
                f"    by its own account it decided after {turn['decided_s'] * 1000:.0f} ms and sent"
                f" the last sample of that reply after {turn['stopped_s'] * 1000:.0f} ms"
            )
    return out


def _packets(packets: dict[str, Any]) -> list[str]:
    caller, agent = packets["caller"], packets["agent"]
    rows = [
        ["", "sent", "received", "lost", "jitter ms"],
        [
            "caller to agent",
            _number(caller.get("sent")),
            _number(agent.get("rx_packets")),
            _number(agent.get("rx_lost")),
            _number(agent.get("jitter_ms")),
        ],
        [
            "agent to caller",
            _number(agent.get("tx_packets")),
            _number(caller.get("received")),
            _number(caller.get("lost")),
            _number(caller.get("jitter_ms")),
        ],
    ]
    return columns(rows)


def _word_errors(errors: dict[str, Any]) -> list[str]:
    names = {
        "recogniser": "caller, as the agent understood it",
        "recording_caller": "caller, from the recording",
        "recording_agent": "agent, from the recording",
    }
    rows = [
        [text, f"{errors[name]['rate'] * 100:.1f} %", _of(errors[name])]
        for name, text in names.items()
    ]
    return columns(rows)


def _of(errors: dict[str, Any]) -> str:
    return f"{errors['errors']} of {errors['words']} words"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
