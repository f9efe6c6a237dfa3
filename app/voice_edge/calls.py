# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge calls list`` and ``calls show ID``: the accounts beside the recordings, drawn in the terminal."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .settings import SettingsError, load

_BAR = 24
_SINCE = (
    ("request", "requested_ns"),
    ("first token", "first_token_ns"),
    ("first audio", "first_audio_ns"),
    ("heard", "first_sample_ns"),
)


def main(argv: Sequence[str]) -> int:
    """Returns the exit code: 0 fine, 1 no such call, 2 wrong settings or usage."""
    parser = argparse.ArgumentParser(prog="voice-edge calls", description="Calls that are over.")
    parser.add_argument("--config", type=Path, required=True, help="settings (TOML)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the recorded calls, the latest last")
    show = verbs.add_parser("show", help="draw one call's turns and their times")
    show.add_argument("id", help="what the log calls it (the latest of that id), or a file")
    arguments = parser.parse_args(argv)
    try:
        folder = load(arguments.config).recording.dir
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    if folder is None:
        print("recording.dir is not set: there are no accounts of calls", file=sys.stderr)
        return 1
    calls = list(_calls(folder))
    if arguments.verb == "list":
        for path, doc in calls:
            print(_line(path, doc))
        return 0
    wanted = arguments.id
    found = [
        doc for path, doc in calls if wanted in (str(doc["call"].get("id")), path.name, path.stem)
    ]
    if not found:
        print(f"no call {wanted} in {folder}; `voice-edge calls list` names them", file=sys.stderr)
        return 1
    print("\n".join(drawn(found[-1], shutil.get_terminal_size().columns)))
    return 0


def _calls(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, document) of each account, by time; what is none is passed over."""
    found = []
    for path in folder.glob("*.json"):
        try:
            doc = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(doc, dict) or doc.get("version") != 1:
            continue
        if isinstance(doc.get("call"), dict) and isinstance(doc.get("turns"), list):
            found.append((path, doc))
    yield from sorted(found, key=lambda f: (str(f[1]["call"].get("answered_at")), f[0].name))


def _line(path: Path, doc: dict[str, Any]) -> str:
    call = doc["call"]
    kinds = [t.get("kind", t["role"]) for t in doc["turns"] if t.get("samples", 1)]
    counts = f"{kinds.count('caller')} caller, {kinds.count('reply')} reply"
    failed = kinds.count("apology")
    more = f", {failed} apology" if failed else ""
    return f"{call.get('id'):>6}  {call.get('answered_at')}  {_length_s(call):7.1f} s  {counts}{more}  {path.name}"


def _length_s(call: dict[str, Any]) -> float:
    since, until = call.get("answered_ns"), call.get("ended_ns")
    return 0.0 if since is None or until is None else max(0.0, (until - since) / 1e9)


def drawn(doc: dict[str, Any], columns: int = 80) -> list[str]:
    """The call as lines: when who spoke, what was said and how long each step of an answer took."""
    call, turns = doc["call"], doc["turns"]
    stats = call.get("stats") or {}
    start = call.get("answered_ns") or 0
    length = max(_length_s(call), 0.001)
    lines = [
        f"call {call.get('id')}  {call.get('answered_at')}  {length:.1f} s  "
        f"{stats.get('codec', '-')}  lost {stats.get('rx_lost', '-')}  "
        f"mos {_figure(stats.get('mos_rx'))} in, {_figure(stats.get('mos_tx'))} out"
    ]
    for turn in turns:
        caller = turn["role"] == "caller"
        since = turn.get("speech_start_ns" if caller else "first_sample_ns")
        until = turn.get("speech_end_ns" if caller else "heard_until_ns")
        kind = "caller" if caller else turn["kind"]
        text = turn["text"] if caller else turn["heard"] or f"(not heard: {turn['text']})"
        if caller and not text:
            text = "(not recognised)" if turn.get("failed") else "(no words)"
        at = "     -" if since is None else f"{(since - start) / 1e9:6.1f}"
        head = f"{at}  {kind:<9} {_bar(since, until, start, length)}  "
        lines.append(head + _fitted(text, columns - len(head)))
        if steps := _steps(turn, turns):
            lines.append(f"{'':18}{steps}")
    return lines


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _bar(since: int | None, until: int | None, start: int, length: float) -> str:
    if since is None:
        return "·" * _BAR
    first = min(_BAR - 1, max(0, int((since - start) / 1e9 / length * _BAR)))
    end = since if until is None else until
    last = min(_BAR - 1, max(first, int((end - start) / 1e9 / length * _BAR)))
    return "·" * first + "█" * (last - first + 1) + "·" * (_BAR - 1 - last)


def _steps(turn: dict[str, Any], turns: list[dict[str, Any]]) -> str:
    """The steps of an answer, in seconds since the caller's last speech."""
    answers = turn.get("answers")
    if answers is None or not 0 <= answers < len(turns):
        return ""
    asked = turns[answers]
    base = asked.get("speech_end_ns")
    if base is None:
        return ""
    times = [("words", asked.get("transcript_ns"))]
    times += [(name, turn.get(key)) for name, key in _SINCE]
    steps = [f"{name} +{(at - base) / 1e9:.2f}" for name, at in times if at is not None]
    if turn.get("interrupted"):
        steps.append("cut")
    return "  ".join(steps)


def _fitted(text: str, room: int) -> str:
    """One line of it; nothing in it can steer a terminal."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    room = max(room, 20)
    return clean if len(clean) <= room else clean[: room - 1] + "…"
