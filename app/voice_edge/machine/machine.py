# SPDX-License-Identifier: GPL-3.0-or-later
"""One call's conversation.

A caller turn is open from the caller's first word until the answer to it is first heard; speech and
late transcripts that come before then join it. An agent turn has the id under which language
model, synthesis and play-out know it, so that cutting it is one id through all three.
"""

from __future__ import annotations

from . import events as ev
from .agent_side import State
from .fallback import FallbackSide
from .policy import Policy
from .timers import Timer
from .turns import AgentTurn, CallerTurn, Kind, Segment, clean_transcript, normalised


class CallMachine(FallbackSide):
    """``handle(event, now_ns)`` returns what to do; ``next_deadline()`` when to send ``Tick``."""

    def __init__(self, policy: Policy, *, fallen: bool = False) -> None:
        """``fallen``: the model servers cannot carry this call; go to what is left at once."""
        super().__init__(policy)
        self._fallen = fallen
        self._segments: dict[int, tuple[CallerTurn, Segment]] = {}

    def next_deadline(self) -> int | None:
        return self._timers.next()

    @property
    def caller_speaking(self) -> bool:
        return self._segment is not None

    def handle(self, event: ev.Event, now_ns: int) -> list[ev.Action]:
        if self.state is State.ENDED:
            # Only the count of what was heard still matters.
            if isinstance(event, ev.PlayoutFinished):
                self._settle(event)
            return []
        self._actions = []
        match event:
            case ev.Tick():
                self._tick(now_ns)
            case ev.Answered():
                self._answered(now_ns)
            case ev.SpeechStarted():
                self._speech_started(event, now_ns)
            case ev.SpeechEnded():
                self._speech_ended(event, now_ns)
            case ev.Transcript():
                self._transcript(event.segment_id, clean_transcript(event.text), now_ns)
            case ev.TranscriptFailed():
                self._transcript(event.segment_id, None, now_ns)
            case ev.PlayoutStarted():
                self._playout_started(event, now_ns)
            case ev.PlayoutFinished():
                self._playout_finished(event, now_ns)
            case ev.Key():
                self._key(event, now_ns)
            case ev.Transferred():
                self._transferred(event, now_ns)
            case ev.MediaTimeout():
                self._end(now_ns, hangup="media_timeout")
            case ev.Farewell():
                self._farewell(now_ns)
            case ev.CallEnded() | ev.Shutdown():
                self._end(now_ns, hangup=None)
            case _:
                self._reply_event(event, now_ns)
        return self._actions

    # --- timers ---

    def _tick(self, now: int) -> None:
        while (timer := self._timers.pop_due(now)) is not None:
            match timer:
                case Timer.CALL:
                    self._farewell(now)
                case Timer.IDLE:
                    self._idle(now)
                case Timer.SEGMENT:
                    self._split_segment(now)
                case Timer.BARGE:
                    self._barge_in(now)
                case Timer.TRANSCRIPT:
                    self._give_up_transcripts(now)
                case Timer.ANSWER:
                    self._answer_overdue(now)
                case Timer.PATIENCE:
                    self._impatient(now)
                case Timer.MENU:
                    self._say_phrase(Kind.GOODBYE, self.policy.goodbye, now)
                case Timer.SETTLE:
                    self._settle_overdue(now)
                case Timer.PLAYOUT:
                    self._playout_overdue(now)

    def _farewell(self, now: int) -> None:
        if self._agent is None or self._agent.kind is not Kind.GOODBYE:
            self._say_phrase(Kind.GOODBYE, self.policy.goodbye, now)

    def _idle(self, now: int) -> None:
        if self._reprompts < self.policy.idle_reprompts:
            self._reprompts += 1
            self._say_phrase(Kind.REPROMPT, self.policy.reprompt, now)
        else:
            self._say_phrase(Kind.GOODBYE, self.policy.goodbye, now)

    def _give_up_transcripts(self, now: int) -> None:
        """They may still come: ``_transcript`` lets them join their turn then."""
        if self._user is not None:
            for segment in self._user.segments:
                segment.failed = segment.failed or segment.pending
        self._resolve(now)

    def _answer_overdue(self, now: int) -> None:
        if self._agent is not None:
            self._unsaid(self._agent, now)

    def _settle_overdue(self, now: int) -> None:
        for turn in self._agents.values():
            if turn.cut_ns is not None:
                turn.estimate(now)
        self._resolve(now)

    def _playout_overdue(self, now: int) -> None:
        turn = self._agent
        if turn is not None:
            turn.broken = turn.broken or not turn.complete
            self._drop_agent(now)
            self._after_playout(turn, now)

    # --- beginning and end ---

    def _answered(self, now: int) -> None:
        self._timers.arm(Timer.CALL, now + self.policy.max_call_ns)
        if self._fallen:
            self._fall_back(now)
        elif self.policy.greeting:
            self._say_phrase(Kind.GREETING, self.policy.greeting, now)
        else:
            self._listen(now)

    # --- the caller speaks ---

    def _speech_started(self, event: ev.SpeechStarted, now: int) -> None:
        if self._segment is not None or self.transferring:
            return
        self._timers.disarm(Timer.IDLE, Timer.MENU)
        if self._agent is None:
            self._timers.disarm(Timer.PATIENCE)
            self._drop_filler(now)
        self._start_segment(event.at_ns, event.decided_ns, now)
        if self._agent is None:
            self.state = State.LISTENING  # goes on before the transcript of the first part is there
        elif self._may_cut(self._agent):
            due = event.at_ns + self.policy.barge_in_min_ns
            if due <= now:
                self._barge_in(now)
            else:
                self._timers.arm(Timer.BARGE, due)

    def _start_segment(self, at_ns: int, decided_ns: int, now: int) -> None:
        self._segment = Segment(self._new_id(), at_ns, decided_ns)
        self._actions.append(ev.StartCapture(self._segment.id))
        self._timers.arm(Timer.SEGMENT, now + self.policy.segment_ns)

    def _split_segment(self, now: int) -> None:
        """The caller speaks on and on: have what there is recognised already."""
        segment = self._segment
        if segment is not None:
            segment.end_ns = now
            self._close_segment(segment, now)
            self._start_segment(now, now, now)

    def _may_cut(self, turn: AgentTurn) -> bool:
        if turn.kind in (Kind.GOODBYE, Kind.TRANSFER):
            return False
        # An answer nobody heard yet is always withdrawn when the caller goes on.
        return self.policy.barge_in or self._unheard_answer(turn)

    def _unheard_answer(self, turn: AgentTurn) -> bool:
        return self._user is not None and turn.answers is self._user

    def _barge_in(self, now: int) -> None:
        turn = self._agent
        if turn is None or not self._may_cut(turn):
            return
        unheard = self._unheard_answer(turn)
        self._drop_agent(now)
        self._drop_filler(now)
        self.state = State.LISTENING
        if not unheard and turn.kind in (Kind.GREETING, Kind.REPLY):
            self._cut = turn

    def _speech_ended(self, event: ev.SpeechEnded, now: int) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        self._timers.disarm(Timer.BARGE, Timer.SEGMENT)
        segment.end_ns = event.at_ns
        self._quiet_ns = max(self._quiet_ns, event.at_ns)
        if self._close_segment(segment, now):
            self.state = State.THINKING
        else:
            self._resolve(now)

    def _close_segment(self, segment: Segment, now: int) -> bool:
        """Have the segment recognised as part of the caller's turn; False if it is nothing."""
        noise = (segment.end_ns or now) - segment.start_ns < self.policy.noise_ns
        if noise or self._agent is not None:
            # Too short to mean anything, or spoken into a turn it was not allowed to stop.
            self._actions.append(ev.DropCapture(segment.id))
            return False
        if self._user is None:
            self._user = CallerTurn()
            self.history.append(self._user)
        self._user.segments.append(segment)
        self._segments[segment.id] = (self._user, segment)
        self._actions.append(ev.Transcribe(segment.id))
        self._timers.arm(Timer.TRANSCRIPT, now + self.policy.transcript_ns)
        self._await_sound(now)
        return True

    def _transcript(self, segment_id: int, text: str | None, now: int) -> None:
        turn, segment = self._segments.get(segment_id, (None, None))
        if turn is None or segment is None or segment.text is not None:
            return
        if text is None:
            segment.failed = True
        else:
            segment.text, segment.transcript_ns = text, now
            self._late(turn, segment, now)
        self._resolve(now)

    def _late(self, turn: CallerTurn, segment: Segment, now: int) -> None:
        """Let words that come after the decision to go on without them join their turn."""
        agent = self._agent
        if not segment.text:
            return
        if agent is not None and self._unheard_answer(agent):
            self._drop_agent(now)  # made without these words
        if self._user is turn:
            return
        if self._user is not None:
            # The caller spoke again and is not answered yet: one turn of both.
            self._user.segments[:0] = turn.segments
            for moved in turn.segments:
                self._segments[moved.id] = (self._user, moved)
            self.history.remove(turn)
        elif agent is None or agent.kind in (Kind.APOLOGY, Kind.REPROMPT):
            self._drop_agent(now)
            self._user = turn
        # Otherwise a later turn is being answered; in history the words stand at their place.

    def _resolve(self, now: int) -> None:
        """Go on when the caller is silent and all is known: transcripts, and what was heard."""
        if self._segment is not None:
            return
        if self._agent is not None:
            self._flush(self._agent, now)
            self._await_sound(now)
            return
        user = self._user
        if user is not None and user.pending:
            self.state = State.THINKING
            self._await_sound(now)
            return
        self._timers.disarm(Timer.TRANSCRIPT)
        if any(t.cut_ns is not None and not t.settled for t in self._agents.values()):
            return  # SETTLE is armed
        self._timers.disarm(Timer.SETTLE)
        text = user.text if user is not None else ""
        if self._cut is not None and normalised(text) in self.policy.backchannels:
            text = ""
        if text:
            self._request(now)
        elif user is not None and any(s.failed for s in user.segments):
            self._failed(now)
        else:
            if user is not None:
                self.history.remove(user)
                self._user = None
            self._resume(now)
