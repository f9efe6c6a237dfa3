# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays line and servers to a :class:`CallMachine`. Times are milliseconds since the answer."""

from __future__ import annotations

from typing import TypeVar

from voice_edge.machine import CallMachine, Kind, Policy, State
from voice_edge.machine import events as ev

MS = 1_000_000
A = TypeVar("A")

POLICY = Policy(
    system_prompt="You help.",
    greeting="Hello there.",
    apology="Sorry about that.",
    reprompt="Still there?",
    goodbye="Goodbye now.",
    continue_prompt="Please go on.",
    barge_in=True,
    barge_in_min_ns=100 * MS,
    noise_ns=120 * MS,
    backchannels=frozenset({"uh-huh", "mm"}),
    segment_ns=30_000 * MS,
    transcript_ns=11_000 * MS,
    answer_ns=15_000 * MS,
    patience_ns=2_000 * MS,
    fillers=("One moment.",),
    playout_slack_ns=60_000 * MS,
    idle_ns=10_000 * MS,
    idle_reprompts=1,
    max_failures=3,
    max_call_ns=600_000 * MS,
    history_turns=40,
)


class Bench:
    """Every action since the last ``take*`` is in ``actions``."""

    def __init__(self, policy: Policy = POLICY, *, start_ms: int = 5_000) -> None:
        self.machine = CallMachine(policy)
        self.policy = policy
        self.start = start_ms
        self.now = start_ms  # not 0, so that "since the beginning of time" shows as a mistake
        self.actions: list[ev.Action] = []
        self.speech_start = 0

    # --- time ---

    def send(self, event: ev.Event) -> None:
        self.actions += self.machine.handle(event, self.now * MS)

    def until(self, ms: int) -> None:
        """Let the time pass, with a tick at each deadline."""
        end = self.start + ms
        while (due := self.machine.next_deadline()) is not None and due <= end * MS:
            self.now = max(self.now, -(-due // MS))
            self.send(ev.Tick())
        self.now = max(self.now, end)

    def wait(self, ms: int) -> None:
        self.until(self.now - self.start + ms)

    def state(self) -> State:
        """A call, so that a type checker does not take one answer for the next."""
        return self.machine.state

    # --- actions ---

    def all(self, kind: type[A]) -> list[A]:
        return [a for a in self.actions if isinstance(a, kind)]

    def take(self, kind: type[A]) -> A:
        """The only action of this kind; what is not taken stays to be looked at."""
        found = self.all(kind)
        assert len(found) == 1, f"wanted one {kind.__name__} in {self.actions}"
        self.actions = [a for a in self.actions if a is not found[0]]
        return found[0]

    def none(self, *kinds: type[ev.Action]) -> None:
        found = [a for a in self.actions if isinstance(a, kinds)]
        assert not found, f"not expected: {found}"

    def forget(self) -> None:
        self.actions = []

    # --- the caller ---

    def starts_speaking(self) -> None:
        self.speech_start = self.now
        self.wait(64)
        self.send(ev.SpeechStarted(self.speech_start * MS, self.now * MS))

    def stops_speaking(self) -> None:
        end = self.now
        self.wait(600)
        self.send(ev.SpeechEnded(end * MS, self.now * MS))

    def sound(self, ms: int) -> None:
        """Speech or noise of this length and the pause after it."""
        self.starts_speaking()
        if self.now - self.speech_start < ms:
            self.wait(ms - (self.now - self.speech_start))
            self.stops_speaking()
        else:
            end = self.speech_start + ms
            self.wait(600)
            self.send(ev.SpeechEnded(end * MS, self.now * MS))

    def says(self, text: str, ms: int = 1_000) -> None:
        self.sound(ms)
        self.transcript(text)

    def transcript(self, text: str, segment: int | None = None) -> None:
        if segment is None:
            segment = self.take(ev.Transcribe).segment_id
        self.send(ev.Transcript(segment, text))

    # --- the agent ---

    def audio(self, turn: int, index: int, ms: int, *, done: bool = True) -> None:
        self.send(ev.SentenceAudio(turn, index, ms * 8))
        if done:
            self.send(ev.SentenceDone(turn, index))

    def starts_playing(self, turn: int) -> None:
        self.send(ev.PlayoutStarted(turn, self.now * MS))

    def finished(self, turn: int, ms: int, *, interrupted: bool = False) -> None:
        self.send(ev.PlayoutFinished(turn, ms * 8, self.now * MS, interrupted))

    def phrase(self, kind: Kind, ms: int = 1_000) -> int:
        """The phrase that must be asked for now is said to its end."""
        say = self.take(ev.Say)
        text = {
            Kind.GREETING: self.policy.greeting,
            Kind.APOLOGY: self.policy.apology,
            Kind.REPROMPT: self.policy.reprompt,
            Kind.GOODBYE: self.policy.goodbye,
        }[kind]
        assert say.text == text
        assert self.take(ev.EndReply).turn_id == say.turn_id
        self.audio(say.turn_id, 0, ms)
        self.starts_playing(say.turn_id)
        self.wait(ms)
        self.finished(say.turn_id, ms)
        return say.turn_id

    def greeted(self) -> Bench:
        self.send(ev.Answered())
        self.phrase(Kind.GREETING)
        self.forget()
        return self

    def replies(self, *sentences: str, ms: int = 1_000, done: bool = True) -> int:
        """The reply asked for now comes whole and begins to play; each sentence lasts ``ms``."""
        turn = self.take(ev.Request).turn_id
        self.send(ev.FirstToken(turn))
        for index, text in enumerate(sentences):
            self.send(ev.ReplySentence(turn, text))
            self.audio(turn, index, ms)
        if done:
            self.send(ev.ReplyDone(turn))
        self.starts_playing(turn)
        self.forget()
        return turn

    def messages(self) -> list[tuple[str, str]]:
        """What the model would be shown now, without the system prompt."""
        return [(m.role, m.content) for m in self.machine.history.messages()[1:]]
