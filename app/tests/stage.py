# SPDX-License-Identifier: GPL-3.0-or-later
"""A call with its servers, played on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from voice_edge.call import CallSession, Servers
from voice_edge.machine import AgentTurn, Policy
from voice_edge.phrases import PhraseCache

from .bench import POLICY
from .fakes import FakeCall, FakeLlm, FakeStt, FakeTts, Script, now_ns
from .virtual import run


class Stage:
    """A call with its servers, run by ``play``; the caller is a coroutine."""

    def __init__(self, *scripts: Script | str, policy: Policy = POLICY) -> None:
        self.llm = FakeLlm(*scripts)
        self.tts = FakeTts()
        self.stt = FakeStt()
        self.policy = policy
        self.recording: str | None = None
        self.rate = 8_000
        self.cache = True

    async def _play(self, caller: Callable[[FakeCall], Awaitable[None]]) -> None:
        self.call = FakeCall(recording=self.recording, rate=self.rate)
        p = self.policy
        phrases = PhraseCache(self.tts, p.phrases)
        if self.cache:
            assert await phrases.fill()
        servers = Servers(self.llm, self.tts, self.stt, phrases)
        self.session = CallSession(self.call, servers, p, clock=now_ns)
        task = asyncio.create_task(self.session.run())
        await caller(self.call)
        if not self.call.gone:
            self.call.leaves()
        await task
        assert (self.llm.open, self.tts.open, self.stt.open) == (0, 0, 0)
        assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()

    def play(self, caller: Callable[[FakeCall], Awaitable[None]]) -> None:
        run(self._play(caller), sockets=False)

    @property
    def said(self) -> list[tuple[str, str]]:
        """(role, text as heard) of the whole call."""
        return [(m.role, m.content) for m in self.session.machine.history.messages()[1:]]

    @property
    def agent(self) -> list[AgentTurn]:
        turns = self.session.machine.history.turns
        return [t for t in turns if isinstance(t, AgentTurn)]
