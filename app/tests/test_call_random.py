# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded conversations of callers who interrupt, cough and go on, with servers that fail at random.

Whatever happens: no fault of ours, nothing left behind, memory and wire agree, and who keeps
silent in the end has had an answer or an apology.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from dataclasses import replace

import pytest

from voice_edge.call import CallSession, Servers
from voice_edge.machine import AgentTurn, CallerTurn, Kind, State
from voice_edge.phrases import PhraseCache

from .bench import POLICY
from .fakes import FakeCall, FakeLlm, FakeStt, FakeTts, Script, down, now_ns
from .virtual import run

WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliett".split(" ")


def script(dice: random.Random) -> Script:
    sentences = [
        " ".join(dice.choices(WORDS, k=dice.randint(1, 8))).capitalize() + "."
        for _ in range(dice.randint(1, 4))
    ]
    return Script(
        sentences,
        pause_s=dice.choice([0.0, 0.05, 0.5]),
        first_s=dice.choice([0.0, 0.2, 1.5]),
        fails=down("llm") if dice.random() < 0.15 else None,
        hangs=dice.random() < 0.05,
    )


class Random:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.llm = FakeLlm(*(script(self.dice) for _ in range(40)), "All is well.")
        self.tts = FakeTts(first_s=self.dice.choice([0.0, 0.1, 0.8]))
        self.stt = FakeStt(delay_s=self.dice.choice([0.0, 0.3, 1.2]))
        self.policy = replace(
            POLICY,
            barge_in=self.dice.random() < 0.9,
            max_failures=100,
            idle_ns=60 * 10**9,
            answer_ns=4 * 10**9,
            playout_slack_ns=8 * 10**9,  # the clients' deadlines, which the fakes do not have
        )

    async def caller(self) -> None:
        dice, call = self.dice, self.call
        for number in range(dice.randint(1, 8)):
            await call.silence(dice.choice([0.0, 0.1, 0.3, 0.7, 2.0, 5.0]))
            if call.gone:
                return
            self.stt.fails = down("stt") if dice.random() < 0.1 else None
            broken = dice.random() < 0.1
            self.tts.fails = lambda _, b=broken: down("tts") if b else None  # type: ignore[misc]
            kind = dice.choice(["words", "words", "words", "cough", "click", "uh-huh"])
            if kind == "words":
                await call.says(f"question {number}", dice.choice([0.3, 1.0, 2.5]))
            elif kind == "uh-huh":
                await call.says("Uh-huh.", 0.4)
            else:
                await call.says("", 0.08 if kind == "click" else 0.4)

    async def play(self) -> None:
        self.call = call = FakeCall()
        p = self.policy
        phrases = PhraseCache(self.tts, p.phrases)
        assert await phrases.fill()
        servers = Servers(self.llm, self.tts, self.stt, phrases)
        self.session = CallSession(call, servers, p, clock=now_ns)
        task = asyncio.create_task(self.session.run())
        await self.caller()
        # From here on all is well, but for what the model still has in its script.
        self.stt.fails = None
        self.tts.fails = lambda _: None
        await call.silence(50.0)
        self.settled = self.session.machine.state
        call.leaves()
        await task
        assert (self.llm.open, self.tts.open, self.stt.open) == (0, 0, 0)
        assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("block", range(10))
def test_random_conversations(block: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(block * 20, block * 20 + 20):
        one = Random(seed)
        run(one.play(), sockets=False)
        _check(one, seed)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def _check(one: Random, seed: int) -> None:
    turns = one.session.machine.history.turns
    assert one.settled is State.LISTENING, seed
    for turn in turns:
        if isinstance(turn, CallerTurn):
            assert not turn.pending, seed
            continue
        assert turn.settled, seed
        assert turn.samples == one.call.samples(turn.id), (seed, turn)
        # Never more words in memory than 15 characters for each second on the wire.
        assert len(turn.heard) <= turn.samples / 8_000 * 15 + len(turn.sentences), (seed, turn)
        if turn.whole:
            assert turn.heard == turn.text, (seed, turn)
    for asked in one.llm.asked:
        roles = [m.role for m in asked[1:]]
        assert all(a != b for a, b in itertools.pairwise(roles)), (seed, roles)
        assert roles[-1] == "user", (seed, roles)
    _answered(turns, seed)


def _answered(turns: list[CallerTurn | AgentTurn], seed: int) -> None:
    """After the last words of the caller, the agent was heard."""
    spoken = [i for i, t in enumerate(turns) if isinstance(t, CallerTurn) and t.text]
    if not spoken:
        return
    after = [t for t in turns[spoken[-1] :] if isinstance(t, AgentTurn) and t.samples]
    assert any(t.kind in (Kind.REPLY, Kind.APOLOGY) for t in after), (seed, turns[spoken[-1] :])
