# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers and phrases the machine goes by, taken from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import Settings
from .tools import Destination
from .turns import normalised

_NS = 1_000_000_000
_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Durations in nanoseconds."""

    system_prompt: str
    greeting: str
    apology: str
    reprompt: str
    goodbye: str
    continue_prompt: str
    barge_in: bool
    barge_in_min_ns: int
    noise_ns: int
    backchannels: frozenset[str]
    segment_ns: int  # longest stretch of speech sent to the recogniser at once
    transcript_ns: int  # the recogniser's own deadline plus slack; only met when it hangs
    answer_ns: int
    patience_ns: int  # silence after the caller's words, or in a reply, before something is said
    fillers: tuple[str, ...]  # what is said then, in turn
    menu: str = ""  # which key leads where, when nothing answers; empty: none
    menu_ns: int = 10 * _NS  # for a key
    transfer: str = ""  # SIP URI of a human; empty: none
    transfer_phrase: str = ""
    may_hang_up: bool = False  # the model
    destinations: tuple[Destination, ...] = ()  # of its transfers
    playout_slack_ns: int  # beyond the length of what is queued, before the turn is given up
    settle_ns: int = 500 * _MS  # the core reports a clear within a tick; then the clock decides
    idle_ns: int
    idle_reprompts: int
    max_failures: int
    max_call_ns: int
    history_turns: int

    @property
    def phrases(self) -> tuple[str, ...]:
        """What is said word for word, and so can be synthesised before any call."""
        phrases = (self.greeting, self.apology, self.reprompt, self.goodbye, *self.fillers)
        return (
            (*phrases, self.menu, self.transfer_phrase)
            if self.transfer or self.destinations
            else phrases
        )

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        a = settings.agent
        return cls(
            system_prompt=a.system_prompt,
            greeting=a.greeting.strip(),
            apology=a.apology,
            reprompt=a.reprompt,
            goodbye=a.goodbye,
            continue_prompt=a.continue_prompt,
            barge_in=a.barge_in,
            barge_in_min_ns=a.barge_in_min_ms * _MS,
            noise_ns=a.noise_ms * _MS,
            backchannels=frozenset(normalised(b) for b in a.backchannels),
            segment_ns=int(settings.stt.max_audio_s * _NS),
            transcript_ns=int((settings.stt.total_s + 1.0) * _NS),
            answer_ns=int(a.answer_deadline_s * _NS),
            patience_ns=int(a.patience_s * _NS),
            fillers=tuple(f.strip() for f in a.fillers),
            menu=a.fallback.menu.strip(),
            menu_ns=int(a.fallback.menu_s * _NS),
            transfer=a.fallback.transfer or "",
            transfer_phrase=a.fallback.transfer_phrase,
            may_hang_up=a.tools.hang_up,
            destinations=tuple(
                Destination(t.name, t.description, t.target) for t in a.tools.transfer
            ),
            playout_slack_ns=int((settings.llm.total_s + settings.tts.total_s) * _NS),
            idle_ns=int(a.idle_s * _NS),
            idle_reprompts=a.idle_reprompts,
            max_failures=a.max_failures,
            max_call_ns=int(a.max_call_s * _NS),
            history_turns=a.history_turns,
        )
