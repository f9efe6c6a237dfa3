# SPDX-License-Identifier: GPL-3.0-or-later
"""What the call machine is told and what it asks for. Times are CLOCK_MONOTONIC nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# --- events from the line ---


@dataclass(frozen=True, slots=True)
class Answered:
    """The call is confirmed and media runs."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    at_ns: int
    decided_ns: int


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    at_ns: int
    decided_ns: int


@dataclass(frozen=True, slots=True)
class PlayoutStarted:
    turn_id: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class PlayoutFinished:
    turn_id: int
    samples: int  # really sent, at COUNT_RATE
    at_ns: int
    interrupted: bool


@dataclass(frozen=True, slots=True)
class MediaTimeout:
    silent_s: float


@dataclass(frozen=True, slots=True)
class CallEnded:
    status: int
    reason: str
    by_remote: bool


@dataclass(frozen=True, slots=True)
class Key:
    """The caller pressed a key. It may be part of a PIN, so the repr does not show it."""

    digit: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Transferred:
    """What became of ``Transfer``."""

    done: bool


# --- events from the model servers ---


@dataclass(frozen=True, slots=True)
class Transcript:
    segment_id: int
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    segment_id: int


@dataclass(frozen=True, slots=True)
class FirstToken:
    turn_id: int


@dataclass(frozen=True, slots=True)
class ReplySentence:
    """One whole sentence of the reply, in order."""

    turn_id: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model yields beside text: it wants something done."""

    name: str
    arguments: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplyTool:
    turn_id: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ReplyDone:
    turn_id: int


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    turn_id: int


@dataclass(frozen=True, slots=True)
class SentenceAudio:
    """``samples`` more of sentence ``index`` (at COUNT_RATE) were queued for play-out."""

    turn_id: int
    index: int
    samples: int


@dataclass(frozen=True, slots=True)
class SentenceDone:
    turn_id: int
    index: int


@dataclass(frozen=True, slots=True)
class VoiceFailed:
    turn_id: int
    index: int


# --- events from the driver ---


@dataclass(frozen=True, slots=True)
class Tick:
    """``next_deadline()`` may have passed."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """The service stops and has waited long enough: say goodbye, then hang up."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The service stops: settle what was heard, ask for nothing more."""


Event = (
    Answered
    | SpeechStarted
    | SpeechEnded
    | PlayoutStarted
    | PlayoutFinished
    | MediaTimeout
    | CallEnded
    | Key
    | Transferred
    | Transcript
    | TranscriptFailed
    | FirstToken
    | ReplySentence
    | ReplyTool
    | ReplyDone
    | ReplyFailed
    | SentenceAudio
    | SentenceDone
    | VoiceFailed
    | Tick
    | Farewell
    | Shutdown
)

# --- actions ---


@dataclass(frozen=True, slots=True)
class Message:
    role: str  # "system", "user", "assistant"
    content: str


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Caller audio from here on belongs to this segment."""

    segment_id: int


@dataclass(frozen=True, slots=True)
class DropCapture:
    """The segment was noise, or nobody wants it: forget its audio."""

    segment_id: int


@dataclass(frozen=True, slots=True)
class Transcribe:
    """The segment is complete: have it recognised."""

    segment_id: int


@dataclass(frozen=True, slots=True)
class Request:
    """Ask the language model; its sentences come back as ``ReplySentence``."""

    turn_id: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """Synthesise and queue one sentence, after those of this turn said before."""

    turn_id: int
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Fill:
    """Queue the whole of a fixed phrase at once, behind what is queued; ``VoiceFailed`` without it."""

    turn_id: int
    text: str


@dataclass(frozen=True, slots=True)
class EndReply:
    """No sentence follows: tell the play-out so once all are queued."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class CancelReply:
    """Stop language model and synthesis of the turn. What is queued still plays."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class FinishPlayout:
    """What is queued is all there will be."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class ClearPlayout:
    """Silence the turn within one tick."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Have the caller's side call ``target`` (a SIP URI) instead; ``Transferred`` follows."""

    target: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Hangup:
    cause: str  # "goodbye", "media_timeout", "transferred"


Action = (
    StartCapture
    | DropCapture
    | Transcribe
    | Request
    | Say
    | Fill
    | EndReply
    | CancelReply
    | FinishPlayout
    | ClearPlayout
    | Transfer
    | Hangup
)
