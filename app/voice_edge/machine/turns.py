# SPDX-License-Identifier: GPL-3.0-or-later
"""Who said what: the caller's turns in segments, the agent's turns in sentences and samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from .events import Message
from .tools import Deed

# What is heard is counted at this rate, whatever the line's is.
COUNT_RATE = 8_000
NS_PER_SAMPLE = 1_000_000_000 // COUNT_RATE

# Synthesis and resampling round at their ends: a sentence short of this much was heard whole.
_HEARD_SLACK = COUNT_RATE // 50
# Ordinary speaking rate, 15 characters a second; only for sentences whose end is not known yet.
_SAMPLES_A_CHARACTER = COUNT_RATE / 15

# What recognisers write for sounds that are not speech: "[BLANK_AUDIO]", "(coughs)", "*noise*".
_NOT_SPEECH = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|<\|[^|]*\|>")
_SPACES = re.compile(r"\s+")


def clean_transcript(text: str) -> str:
    """The words of a transcript; empty when it holds none."""
    text = _SPACES.sub(" ", _NOT_SPEECH.sub(" ", text)).strip()
    return text if any(c.isalnum() for c in text) else ""


def normalised(text: str) -> str:
    """For comparing short utterances: lower case, no punctuation but hyphens."""
    kept = "".join(c if c.isalnum() or c in "-'" else " " for c in text.lower())
    return " ".join(kept.split())


class Kind(StrEnum):
    GREETING = "greeting"
    REPLY = "reply"
    APOLOGY = "apology"
    REPROMPT = "reprompt"
    GOODBYE = "goodbye"
    MENU = "menu"  # which key leads where, when nothing answers
    TRANSFER = "transfer"  # before the call goes to a human
    FILLER = "filler"  # "One moment": while the answer is made; the model is not shown it


@dataclass(slots=True)
class Segment:
    """One stretch of caller speech between two pauses."""

    id: int
    start_ns: int
    decided_ns: int  # when the core knew that it was speech
    end_ns: int | None = None
    text: str | None = None
    transcript_ns: int | None = None
    failed: bool = False

    @property
    def pending(self) -> bool:
        return self.text is None and not self.failed


@dataclass(slots=True)
class CallerTurn:
    """What the caller said before the agent's voice was next heard; one or more segments."""

    segments: list[Segment] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        return any(s.pending for s in self.segments)

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.segments if s.text)


@dataclass(slots=True)
class Sentence:
    text: str
    samples: int = 0  # queued so far, at COUNT_RATE
    done: bool = False  # ``samples`` is final

    def expected(self) -> float:
        """Length in samples; a cautious guess while synthesis still runs."""
        if self.done:
            return float(self.samples)
        return max(float(self.samples), len(self.text) * _SAMPLES_A_CHARACTER)


@dataclass(slots=True)
class AgentTurn:
    """One thing the agent says, from its request to the last sample heard."""

    id: int
    kind: Kind
    created_ns: int
    answers: CallerTurn | None = None
    resumes: AgentTurn | None = None
    sentences: list[Sentence] = field(default_factory=list)
    said: int = 0  # sentences handed to synthesis
    complete: bool = False  # no further sentence will come
    ended: bool = False  # EndReply or FinishPlayout was asked for
    then: Deed | None = None  # done once all was heard
    broken: bool = False  # a server failed half-way: the apology follows
    requested_ns: int | None = None
    first_token_ns: int | None = None
    first_audio_ns: int | None = None
    first_sample_ns: int | None = None
    drained_ns: int | None = None  # when what is queued will have been played
    cut_ns: int | None = None
    heard_until_ns: int | None = None
    samples: int = 0  # heard, at COUNT_RATE
    settled: bool = False  # ``samples`` is known
    estimated: bool = False  # by the clock: the core's count still wins
    whole: bool = False  # played to its end
    replaced: bool = False  # its cut sentence was heard whole in the turn that resumed it

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.sentences)

    @property
    def queued(self) -> int:
        return sum(s.samples for s in self.sentences)

    def begin(self, at_ns: int) -> None:
        """Its first sample is on the wire."""
        if self.first_sample_ns is None:
            self.first_sample_ns = at_ns
            self.drained_ns = at_ns + self.queued * NS_PER_SAMPLE

    def queue(self, samples: int, now_ns: int) -> None:
        """``samples`` more wait to be played: after a gap, if all others were played by now."""
        if self.drained_ns is not None:
            self.drained_ns = max(self.drained_ns, now_ns) + samples * NS_PER_SAMPLE

    @property
    def interrupted(self) -> bool:
        return self.cut_ns is not None

    def settle(self, samples: int, at_ns: int) -> None:
        """The play-out is over: ``samples`` were heard."""
        if self.settled and not self.estimated:
            return
        self.estimated = False
        self.samples, self.heard_until_ns, self.settled = samples, at_ns, True
        if self.resumes is not None and self.heard:
            self.resumes.replaced = True

    def estimate(self, now_ns: int) -> None:
        """Settle without the core's count: by the clock, never more than was queued."""
        if self.settled:
            return
        end = now_ns if self.cut_ns is None else self.cut_ns
        if self.first_sample_ns is None:
            self.settle(0, end)
        else:
            played = max(0, end - self.first_sample_ns) // NS_PER_SAMPLE
            self.settle(min(self.queued, played), end)
        self.estimated = True

    def position(self) -> tuple[int, float]:
        """(sentences heard whole, part of the next one that was heard, 0…1)."""
        if self.whole:
            return len(self.sentences), 0.0
        left = self.samples
        for index, sentence in enumerate(self.sentences):
            if sentence.done and sentence.samples and left + _HEARD_SLACK >= sentence.samples:
                left = max(0, left - sentence.samples)
                continue
            length = sentence.expected()
            return index, min(1.0, left / length) if length else 0.0
        return len(self.sentences), 0.0

    @property
    def heard(self) -> str:
        """The words whose audio was played, cut at a word boundary."""
        whole, part = self.position()
        texts = [s.text for s in self.sentences[:whole]]
        if part and not self.replaced and whole < len(self.sentences):
            texts.append(_words_within(self.sentences[whole].text, part))
        return " ".join(t for t in texts if t)


def _words_within(text: str, part: float) -> str:
    """The words that end within the first ``part`` of ``text``."""
    limit = len(text) * part
    if limit >= len(text):
        return text
    kept = ""
    for match in re.finditer(r"\S+", text):
        if match.end() > limit:
            break
        kept = text[: match.end()]
    return kept


class History:
    """The turns of a call in order, and the messages a model is shown of them."""

    def __init__(self, system_prompt: str, limit: int) -> None:
        self._system = Message("system", system_prompt)
        self._limit = limit
        self.turns: list[CallerTurn | AgentTurn] = []

    def append(self, turn: CallerTurn | AgentTurn) -> None:
        self.turns.append(turn)

    def remove(self, turn: CallerTurn) -> None:
        # By identity: dataclass equality would remove a look-alike.
        self.turns = [t for t in self.turns if t is not turn]

    def messages(self, *more: Message) -> tuple[Message, ...]:
        """Only what was really said and heard, and ``more`` after it. Neighbours of one role are
        joined, since many chat templates insist on alternation."""
        said = [
            Message("user", turn.text)
            if isinstance(turn, CallerTurn)
            else Message("assistant", turn.heard)
            for turn in self.turns
            if isinstance(turn, CallerTurn) or turn.kind is not Kind.FILLER
        ]
        merged: list[Message] = []
        for message in (*said, *more):
            if not message.content:
                continue
            if merged and merged[-1].role == message.role:
                message = Message(message.role, f"{merged.pop().content} {message.content}")
            merged.append(message)
        return (self._system, *merged[-self._limit :])
