# SPDX-License-Identifier: GPL-3.0-or-later
"""The silence guard: nobody waits for the agent's voice without hearing that it is at work.

Model servers have deadlines of their own, but what the caller bears is one silence, whatever it is
made of: recognition, model and synthesis in turn, each within its deadline. So one timer runs from
the last sound either side made. Before the answer is heard a fixed phrase is said; in the middle
of an answer whose rest does not come, the answer is broken off and apologised for.
"""

from __future__ import annotations

from . import events as ev
from .agent_side import AgentSide
from .timers import Timer
from .turns import AgentTurn, Kind, Sentence


class PatientSide(AgentSide):
    """What ``Timer.PATIENCE`` is armed for, and what it does."""

    def _await_sound(self, now: int) -> None:
        """Our voice is awaited: something of it, or more of it."""
        turn = self._agent
        if turn is not None and turn.drained_ns is not None:
            if turn.broken:
                return
            since = turn.drained_ns
        elif self._filler is not None:
            return  # its end comes back here
        else:
            since = self._quiet_ns
            if turn is not None and turn.kind is not Kind.REPLY:
                since = max(since, turn.created_ns)  # said of our own accord
        self._timers.arm(Timer.PATIENCE, max(now, since + self.policy.patience_ns))

    def _impatient(self, now: int) -> None:
        if self._segment is not None:
            return
        turn = self._agent
        if turn is None or (turn.first_sample_ns is None and turn.kind is not Kind.GOODBYE):
            self._fill(now)
        elif turn.first_sample_ns is not None and not turn.broken:
            if turn.ended and all(s.done for s in turn.sentences):
                return  # all of it was queued: only its end was not reported yet
            self._break_off(turn)

    def _fill(self, now: int) -> None:
        fillers = self.policy.fillers
        if not fillers or self._filler is not None:
            return
        text = fillers[self._fillers % len(fillers)]
        self._fillers += 1
        turn = AgentTurn(self._new_id(), Kind.FILLER, now, sentences=[Sentence(text)])
        turn.said, turn.complete, turn.ended = 1, True, True
        self._filler = self._agents[turn.id] = turn
        self.history.append(turn)
        self._actions.append(ev.Fill(turn.id, text))

    def _filler_event(self, turn: AgentTurn, event: ev.Event, now: int) -> None:
        match event:
            case ev.SentenceAudio(samples=samples):
                turn.first_audio_ns = turn.first_audio_ns or now
                turn.sentences[0].samples += samples
                turn.queue(samples, now)
            case ev.SentenceDone():
                turn.sentences[0].done = True
            case ev.VoiceFailed():  # not in the cache: silence is all there is
                turn.settle(0, now)
                self._filler = None

    def _drop_filler(self, now: int) -> None:
        """The caller goes on: do not talk into it."""
        turn = self._filler
        if turn is None or not self.policy.barge_in:
            return
        self._filler = None
        turn.cut_ns = now
        self._actions.append(ev.ClearPlayout(turn.id))
        self._timers.arm(Timer.SETTLE, now + self.policy.settle_ns)
