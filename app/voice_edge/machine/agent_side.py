# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's half of the conversation: making, saying, cutting and resuming its turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum

from . import events as ev
from .policy import Policy
from .timers import Timer, Timers
from .tools import Deed, deed
from .turns import (
    NS_PER_SAMPLE,
    AgentTurn,
    CallerTurn,
    History,
    Kind,
    Segment,
    Sentence,
)


class State(StrEnum):
    GREETING = "greeting"
    LISTENING = "listening"
    THINKING = "thinking"
    SPEAKING = "speaking"
    ENDED = "ended"


class AgentSide(ABC):
    """State shared by both halves, and what the agent does with its turns."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = State.GREETING
        self.history = History(policy.system_prompt, policy.history_turns)
        self._timers = Timers()
        self._actions: list[ev.Action] = []
        self._next_id = 1
        self._agents: dict[int, AgentTurn] = {}
        self._segment: Segment | None = None  # the caller speaks now
        self._user: CallerTurn | None = None  # the open caller turn
        self._agent: AgentTurn | None = None  # being made or spoken
        self._cut: AgentTurn | None = None  # cut by speech that may yet prove to be noise
        self._filler: AgentTurn | None = None  # said while the answer is made
        self._fillers = 0  # since the last answer
        self._quiet_ns = 0  # nobody was heard since
        self._failures = 0
        self._reprompts = 0

    @abstractmethod
    def _resolve(self, now: int) -> None:
        """Go on when the caller is silent and all is known."""

    @abstractmethod
    def _fall_back(self, now: int) -> None:
        """Too many answers failed: the next of what is left."""

    @abstractmethod
    def _menu_over(self, now: int) -> None:
        """The menu was said, or cannot be."""

    @abstractmethod
    def _do(self, then: Deed, now: int) -> None:
        """What the model wants done, and said nothing to."""

    @abstractmethod
    def _transfer(self, now: int, then: Deed | None) -> None:
        """It was said that the call goes to a human, or cannot be."""

    @abstractmethod
    def _await_sound(self, now: int) -> None:
        """Bound the silence from now on."""

    @abstractmethod
    def _filler_event(self, turn: AgentTurn, event: ev.Event, now: int) -> None:
        """What became of a filler that was asked for."""

    def _end(self, now: int, *, hangup: str | None) -> None:
        if self._agent is not None:
            if hangup is not None:
                self._drop_agent(now)
            else:
                self._agent.cut_ns = now
                self._actions.append(ev.CancelReply(self._agent.id))
        for turn in self._agents.values():
            turn.estimate(now)
        self._agent = self._user = self._segment = self._cut = self._filler = None
        self._timers.clear()
        self.state = State.ENDED
        if hangup is not None:
            self._actions.append(ev.Hangup(hangup))

    def _listen(self, now: int) -> None:
        self.state = State.LISTENING
        self._timers.disarm(Timer.ANSWER, Timer.PLAYOUT, Timer.PATIENCE)
        self._fillers = 0
        if self._segment is None:
            self._timers.arm(Timer.IDLE, now + self.policy.idle_ns)

    def _drop_agent(self, now: int) -> None:
        """Stop the agent's turn everywhere: model, synthesis, play-out."""
        turn = self._agent
        if turn is None:
            return
        self._agent = None
        self._timers.disarm(Timer.ANSWER, Timer.PLAYOUT, Timer.BARGE, Timer.PATIENCE)
        turn.cut_ns = now
        self._actions.append(ev.CancelReply(turn.id))
        if turn.queued or turn.first_sample_ns is not None:
            self._actions.append(ev.ClearPlayout(turn.id))
            if not turn.settled:
                self._timers.arm(Timer.SETTLE, now + self.policy.settle_ns)
        else:
            turn.settle(0, now)

    # --- the agent answers ---

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _new_turn(self, kind: Kind, now: int) -> AgentTurn:
        turn = AgentTurn(self._new_id(), kind, now)
        self._agent = self._agents[turn.id] = turn
        self.history.append(turn)
        self._timers.disarm(Timer.IDLE, Timer.TRANSCRIPT, Timer.PATIENCE)
        self._timers.arm(Timer.ANSWER, now + self.policy.answer_ns)
        return turn

    def _request(self, now: int) -> None:
        self._cut = None
        self._reprompts = 0
        messages = self.history.messages()
        turn = self._new_turn(Kind.REPLY, now)
        turn.answers, turn.requested_ns = self._user, now
        self.state = State.THINKING
        self._actions.append(ev.Request(turn.id, messages))
        self._await_sound(now)

    def _say_phrase(self, kind: Kind, text: str, now: int, then: Deed | None = None) -> None:
        """Say one of the fixed phrases, instead of whatever is being said or made."""
        if self._agent is not None:
            self._drop_agent(now)
        if self._segment is not None and kind is Kind.GOODBYE:
            self._actions.append(ev.DropCapture(self._segment.id))
            self._segment = None
        self._cut = None
        self._user = None
        turn = self._new_turn(kind, now)
        turn.sentences.append(Sentence(text))
        turn.complete, turn.then = True, then
        self.state = State.GREETING if kind is Kind.GREETING else State.SPEAKING
        self._flush(turn, now)

    def _resume(self, now: int) -> None:
        """It was only noise: say what is left of the turn it cut."""
        cut, self._cut = self._cut, None
        if cut is None:
            self._listen(now)
            return
        whole, _ = cut.position()
        left = cut.sentences[whole:]
        if not left and cut.complete:
            self._after_playout(cut, now)
            return
        known = " ".join(s.text for s in left)
        cut.replaced = True  # for the model its sentence stands once; for us when it was heard
        messages = self.history.messages(
            ev.Message("assistant", known), ev.Message("user", self.policy.continue_prompt)
        )
        cut.replaced = False
        turn = self._new_turn(cut.kind, now)
        turn.answers, turn.resumes = cut.answers, cut
        turn.sentences = [Sentence(s.text) for s in left]
        turn.complete, turn.broken, turn.then = cut.complete, cut.broken, cut.then
        self.state = State.GREETING if cut.kind is Kind.GREETING else State.SPEAKING
        if not cut.complete:
            turn.requested_ns = now
            self._actions.append(ev.Request(turn.id, messages))
        self._flush(turn, now)
        self._await_sound(now)

    def _flush(self, turn: AgentTurn, now: int) -> None:
        """Hand the sentences that wait to synthesis, unless the caller has begun to speak."""
        if self._segment is not None and turn.first_sample_ns is None:
            return
        for index in range(turn.said, len(turn.sentences)):
            self._actions.append(ev.Say(turn.id, index, turn.sentences[index].text))
        turn.said = len(turn.sentences)
        if turn.complete and not turn.ended:
            turn.ended = True
            self._actions.append(ev.EndReply(turn.id))

    def _reply_event(self, event: ev.Event, now: int) -> None:
        turn_id = getattr(event, "turn_id", None)
        if self._filler is not None and turn_id == self._filler.id:
            self._filler_event(self._filler, event, now)
            return
        turn = self._agent
        if turn is None or turn_id != turn.id:
            return  # of a turn that was cut while the event was under way
        match event:
            case ev.FirstToken():
                turn.first_token_ns = turn.first_token_ns or now
            case ev.ReplySentence(text=text):
                turn.sentences.append(Sentence(text))
                self._flush(turn, now)
            case ev.ReplyTool(call=call):
                policy = self.policy
                turn.then = turn.then or deed(
                    call.name, call.arguments, policy.may_hang_up, policy.destinations
                )
            case ev.ReplyDone():
                turn.complete = True
                if turn.sentences:
                    self._flush(turn, now)
                elif turn.then is not None:
                    self._do(turn.then, now)
                elif turn.resumes is not None:  # nothing was left to say
                    self._drop_agent(now)
                    self._listen(now)
                else:
                    self._unsaid(turn, now)
            case ev.ReplyFailed():
                self._reply_failed(turn, now)
            case ev.SentenceAudio(index=index, samples=samples):
                turn.first_audio_ns = turn.first_audio_ns or now
                turn.sentences[index].samples += samples
                turn.queue(samples, now)
                self._watch_playout(turn, now)
            case ev.SentenceDone(index=index):
                turn.sentences[index].done = True
            case ev.VoiceFailed():
                self._voice_failed(turn, now)

    def _reply_failed(self, turn: AgentTurn, now: int) -> None:
        if turn.sentences:  # say what there is, then apologise
            turn.complete = turn.broken = True
            self._flush(turn, now)
        else:
            self._unsaid(turn, now)

    def _voice_failed(self, turn: AgentTurn, now: int) -> None:
        if turn.queued:
            self._break_off(turn)
        else:
            self._unsaid(turn, now)

    def _break_off(self, turn: AgentTurn) -> None:
        """Let what is queued be heard, then apologise."""
        turn.complete = turn.broken = turn.ended = True
        self._actions += [ev.CancelReply(turn.id), ev.FinishPlayout(turn.id)]

    def _unsaid(self, turn: AgentTurn, now: int) -> None:
        """Nothing of the turn can be made audible. Only an answer is worth an apology."""
        self._drop_agent(now)
        match turn.kind:
            case Kind.REPLY:
                self._failed(now)
            case Kind.GOODBYE:
                self._end(now, hangup="goodbye")
            case Kind.MENU:
                self._menu_over(now)
            case Kind.TRANSFER:
                self._transfer(now, turn.then)
            case _:
                self._listen(now)

    def _failed(self, now: int) -> None:
        """The caller gets no answer this time: say so, or give up after several."""
        self._failures += 1
        if self._failures >= self.policy.max_failures:
            self._fall_back(now)
        else:
            self._say_phrase(Kind.APOLOGY, self.policy.apology, now)

    # --- the play-out ---

    def _watch_playout(self, turn: AgentTurn, now: int) -> None:
        began = turn.first_sample_ns or now
        length = turn.queued * NS_PER_SAMPLE
        self._timers.arm(Timer.PLAYOUT, max(now, began + length) + self.policy.playout_slack_ns)
        self._await_sound(now)

    def _playout_started(self, event: ev.PlayoutStarted, now: int) -> None:
        turn = self._agents.get(event.turn_id)
        if turn is None:
            return
        turn.begin(event.at_ns)
        if turn is not self._agent:
            return
        self._timers.disarm(Timer.ANSWER)
        self._watch_playout(turn, now)
        if turn.kind is Kind.REPLY:
            self.state = State.SPEAKING
            self._user = None  # answered: what the caller says next is a turn of its own
            self._flush(turn, now)

    def _settle(self, event: ev.PlayoutFinished) -> AgentTurn | None:
        turn = self._agents.get(event.turn_id)
        if turn is not None:
            turn.settle(event.samples, event.at_ns)
            self._quiet_ns = max(self._quiet_ns, event.at_ns)
        return turn

    def _playout_finished(self, event: ev.PlayoutFinished, now: int) -> None:
        turn = self._settle(event)
        if turn is None:
            return
        if turn is self._filler:
            self._filler, turn.whole = None, not event.interrupted
        if turn is not self._agent:
            self._resolve(now)
            return
        self._agent = None
        self._timers.disarm(Timer.ANSWER, Timer.PLAYOUT, Timer.BARGE, Timer.PATIENCE)
        if event.interrupted:
            turn.cut_ns = event.at_ns
            self._actions.append(ev.CancelReply(turn.id))
        elif not turn.broken:
            turn.whole = True  # rounding must not cost the last word
            if turn.kind is Kind.REPLY:
                self._failures = 0
        self._after_playout(turn, now)

    def _after_playout(self, turn: AgentTurn, now: int) -> None:
        if turn.kind is Kind.GOODBYE:
            self._end(now, hangup="goodbye")
        elif turn.kind is Kind.TRANSFER:
            self._transfer(now, turn.then)
        elif turn.kind is Kind.MENU:
            self._menu_over(now)
        elif turn.broken:
            self._failed(now)
        elif turn.then is not None and turn.then.hang_up:
            self._end(now, hangup="tool")
        elif turn.then is not None:
            self._transfer(now, turn.then)
        else:
            self._listen(now)
