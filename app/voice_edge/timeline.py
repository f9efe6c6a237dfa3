# SPDX-License-Identifier: GPL-3.0-or-later
"""What was said and when, beside the recording as ``<recording>.json``.

The document (``version`` 1), times in CLOCK_MONOTONIC nanoseconds or null::

    {"version": 1,
     "call": {"id", "sip_call_id", "recording", "answered_at" (UTC, ISO 8601), "answered_ns",
              "ended_ns", "status", "reason", "by_remote", "stats": {…}},
     "turns": [
       {"role": "caller", "text", "speech_start_ns", "speech_decided_ns", "speech_end_ns",
        "transcript_ns", "failed": true when a segment could not be recognised},
       {"role": "agent", "turn_id", "text",
        "kind": "greeting" | "reply" | "apology" | "reprompt" | "goodbye" | "filler" |
        "menu" | "transfer",
        "heard", "answers": index of the caller turn in "turns" or null, "resumes": turn_id,
        "requested_ns", "first_token_ns", "first_audio_ns", "first_sample_ns", "cut_ns",
        "heard_until_ns", "samples", "interrupted", "latency_ms"}]}

``stats`` has loss and jitter of both directions, the round trip and the mean opinion score (E-model, ITU-T
G.107) of what was heard here (``mos_rx``) and there (``mos_tx``, null when the peer reports nothing).
Keys that were pressed are in no part of it.

``latency_ms`` is the time from the caller's last speech to the first sample of the answer on RTP.
``samples`` count 8000 a second, whatever the rate of the call (``rate`` in ``stats``). Agent turns
withdrawn before a sample was heard have ``samples`` 0.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from .machine import AgentTurn, CallerTurn, History

VERSION = 1
_STATS = (
    "codec",
    "rate",
    "rx_packets",
    "rx_lost",
    "rx_late",
    "rx_duplicate",
    "rx_malformed",
    "rx_foreign",
    "rx_wrong_type",
    "ssrc_changes",
    "jitter_ms",
    "jitter_delay_ms",
    "tx_packets",
    "tx_errors",
    "concealed_frames",
    "rtt_ms",
    "remote_lost",
    "remote_jitter_ms",
    "mos_rx",
    "mos_tx",
    "playout_underruns",
    "tx_overs",
    "gain_db",
    "speech_level_dbov",
    "noise_level_dbov",
)


def document(history: History, call: dict[str, Any]) -> dict[str, Any]:
    places = {id(turn): index for index, turn in enumerate(history.turns)}
    turns = [
        _caller(turn) if isinstance(turn, CallerTurn) else _agent(turn, places)
        for turn in history.turns
    ]
    return {"version": VERSION, "call": call, "turns": turns}


def stats(raw: Any) -> dict[str, Any]:
    """The known figures of a ``CallStats``."""
    return {name: getattr(raw, name) for name in _STATS if hasattr(raw, name)}


def _caller(turn: CallerTurn) -> dict[str, Any]:
    ends = [s.end_ns for s in turn.segments if s.end_ns is not None]
    transcripts = [s.transcript_ns for s in turn.segments if s.transcript_ns is not None]
    return {
        "role": "caller",
        "text": turn.text,
        "speech_start_ns": min((s.start_ns for s in turn.segments), default=None),
        "speech_decided_ns": min((s.decided_ns for s in turn.segments), default=None),
        "speech_end_ns": max(ends, default=None),
        "transcript_ns": max(transcripts, default=None),
        "failed": any(s.failed for s in turn.segments),
    }


def _agent(turn: AgentTurn, places: dict[int, int]) -> dict[str, Any]:
    latency = None
    if turn.answers is not None and turn.resumes is None and turn.first_sample_ns is not None:
        spoken = [s.end_ns for s in turn.answers.segments if s.text and s.end_ns is not None]
        if spoken:
            latency = round((turn.first_sample_ns - max(spoken)) / 1e6, 1)
    return {
        "role": "agent",
        "turn_id": turn.id,
        "kind": str(turn.kind),
        "text": turn.text,
        "heard": turn.heard,
        "answers": places.get(id(turn.answers)) if turn.answers is not None else None,
        "resumes": turn.resumes.id if turn.resumes is not None else None,
        "requested_ns": turn.requested_ns,
        "first_token_ns": turn.first_token_ns,
        "first_audio_ns": turn.first_audio_ns,
        "first_sample_ns": turn.first_sample_ns,
        "cut_ns": turn.cut_ns,
        "heard_until_ns": turn.heard_until_ns,
        "samples": turn.samples,
        "interrupted": turn.interrupted,
        "latency_ms": latency,
    }


def path_for(recording: str) -> Path:
    return Path(recording + ".json")


def write(path: Path, doc: dict[str, Any]) -> None:
    """All or nothing, readable by the owner only. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(doc, file, ensure_ascii=False, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
