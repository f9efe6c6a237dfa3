# SPDX-License-Identifier: GPL-3.0-or-later
"""The call itself: what the caller does, and what a stop-watch on the wire shows."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..loopcall import measure
from ..loopcall.caller import Caller, CallFailed, CallOver
from ..loopcall.g711 import Pcm
from ..loopcall.rtp_peer import Arrival, Departure, Utterance
from .dialogue import Line
from .problems import DemoError

_GREETING_S = 20.0
_REPLY_S = 30.0
_LONGEST_REPLY_S = 60.0
_QUIET_S = 0.9  # the agent has finished when it was silent for so long
_INTERRUPT_AFTER_S = 2.0
_THINK_S = 0.3
_GUARD_NS = 150_000_000
_BEFORE_NS = 500_000_000
# A telephone line is never digitally silent, and detectors of speech are made for lines.
_LINE_NOISE_DBFS = -65.0


@dataclass
class Spoken:
    """A line that was said: times in CLOCK_MONOTONIC ns on the caller's wire."""

    line: Line
    first_speech_ns: int  # first faint sound
    active_ns: int  # first active speech: what an interruption is timed from
    last_speech_ns: int
    reply_ns: int | None = None  # agent's first audible sample afterwards
    silence_s: float | None = (
        None  # interruptions: active speech to the agent's last audible sample
    )

    @property
    def reply_s(self) -> float | None:
        """From the caller's last speech to the agent's first audible sample, seconds."""
        return None if self.reply_ns is None else (self.reply_ns - self.last_speech_ns) / 1e9


@dataclass
class Conversation:
    """All that the caller's side knows of the call."""

    answered_ns: int = 0
    ended_ns: int = 0
    spoken: list[Spoken] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    packets: dict[str, float] = field(default_factory=dict)


async def hold(
    sip: tuple[str, int],
    lines: Sequence[Line],
    voices: Mapping[str, Pcm],
    say: Callable[[str], None],
) -> Conversation:
    """Call the agent, say every line, hang up. Raises DemoError if it never answers the call.

    An unanswered line or an early hang-up is noted in ``problems`` and ends the conversation.
    """
    result = Conversation()
    async with Caller(sip, noise_dbfs=_LINE_NOISE_DBFS) as caller:
        try:
            await caller.dial(f"sip:agent@{sip[0]}:{sip[1]}")
        except CallFailed as error:
            raise DemoError(f"{error} (INVITE to {sip[0]}:{sip[1]})") from error
        result.answered_ns = caller.answered_ns
        say("the agent has picked up")
        try:
            await _talk(caller, lines, voices, result, say)
        except CallOver as error:
            result.problems.append(str(error))
        await caller.hang_up()
        result.ended_ns = time.monotonic_ns()
        say("hung up")
        result.departures = list(caller.rtp.departures)
        result.arrivals = list(caller.rtp.arrivals)
        result.packets = {
            "sent": len(result.departures),
            "send_errors": caller.rtp.send_errors,
            "received": caller.rtp.stats.packets,
            "lost": caller.rtp.stats.lost,
            "duplicates": caller.rtp.stats.duplicates,
            "reordered": caller.rtp.stats.reordered,
            "malformed": caller.rtp.stats.malformed,
            "jitter_ms": round(caller.rtp.stats.jitter_ms, 3),
            "max_gap_ms": round(caller.rtp.stats.max_gap_ms, 2),
            "max_late_ms": round(caller.rtp.max_late_ns / 1e6, 2),
        }
    return result


async def _talk(
    caller: Caller,
    lines: Sequence[Line],
    voices: Mapping[str, Pcm],
    result: Conversation,
    say: Callable[[str], None],
) -> None:
    if not await caller.hear_speech(caller.answered_ns, _GREETING_S):
        result.problems.append(f"the agent did not greet within {_GREETING_S:.0f} s")
        return
    say("the agent greets")
    for line in lines:
        if line.interrupts:
            await asyncio.sleep(_INTERRUPT_AFTER_S)
            # Not into a pause between two words: then nothing could be heard to stop.
            await caller.hear_speech(time.monotonic_ns(), _LONGEST_REPLY_S)
        else:
            await caller.hear_silence(_QUIET_S, _LONGEST_REPLY_S)
            await asyncio.sleep(_THINK_S)
        say(f"caller {'interrupts' if line.interrupts else 'says'}: {line.text}")
        spoken = measured(await caller.say(voices[line.sound]), line)
        result.spoken.append(spoken)
        if not await caller.hear_speech(_reply_from(spoken), _REPLY_S):
            result.problems.append(
                f'turn {len(result.spoken)} ("{line.text}") went unanswered for {_REPLY_S:.0f} s'
            )
            return
        settle(
            spoken, measure.heard(_since(caller.rtp.arrivals, spoken.first_speech_ns - _BEFORE_NS))
        )
        if spoken.reply_s is not None:
            say(f"the agent answers after {spoken.reply_s:.2f} s")
    await caller.hear_silence(_QUIET_S, _LONGEST_REPLY_S)


def _since(arrivals: Sequence[Arrival], from_ns: int) -> list[Arrival]:
    """The latest packets only: the whole call would keep the audio thread waiting."""
    latest = itertools.takewhile(lambda arrival: arrival.at_ns >= from_ns, reversed(arrivals))
    return list(latest)


def measured(utterance: Utterance, line: Line) -> Spoken:
    """The times of a line just said."""
    return Spoken(
        line,
        measure.first_speech_ns(utterance),
        measure.active_onset_ns(utterance),
        measure.last_speech_ns(utterance),
    )


def settle(spoken: Spoken, sound: measure.Heard) -> None:
    """Fill in what the agent did, from what was heard of it."""
    spoken.reply_ns = measure.first_audible_after(sound, _reply_from(spoken))
    if spoken.line.interrupts:
        spoken.silence_s = measure.silence_after_barge_in(
            sound, spoken.active_ns, _reply_from(spoken)
        )


def _reply_from(spoken: Spoken) -> int:
    """What is heard from here on is the reply. An agent that was interrupted by a very short line
    may still be falling silent for a moment."""
    return spoken.last_speech_ns + (_GUARD_NS if spoken.line.interrupts else 0)
