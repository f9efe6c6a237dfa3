# SPDX-License-Identifier: GPL-3.0-or-later
"""Each model server fails in each way, before and in the middle of its answer: speech within 3 s.

Real clients and sockets on virtual time, with the deadlines of the settings as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from voice_edge.adapters import LlmClient, SttClient, TtsClient
from voice_edge.call import CallSession, Servers
from voice_edge.machine import AgentTurn, Kind
from voice_edge.phrases import PhraseCache
from voice_edge.settings import Llm, Stt, Tts

from .bench import POLICY
from .fakes import FakeCall, FakeLlm, FakeStt, FakeTts, now_ns
from .servers import Handler, Received, Server, Wire, delta
from .virtual import run

LIMIT_S = 3.0
KINDS = {"llm": "text/event-stream", "tts": "audio/pcm", "stt": "application/json"}
FIRST = "This is the first sentence, which is long enough to be spoken for a while. And"
SENTENCE = "This is an answer of one sentence."


async def _begins(kind: str, wire: Wire) -> None:
    if kind == "stt":
        head = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
        await wire.raw(head.encode() + b'{"te')
        return
    await wire.head(KINDS[kind])
    await wire.chunk(delta(FIRST) if kind == "llm" else bytes(24_000))


async def _crawls(kind: str, wire: Wire, *, begun: bool) -> None:
    """A little of the answer every two seconds: within each deadline, and of no use."""
    if not begun:
        await wire.head(KINDS[kind])
    while True:
        await asyncio.sleep(2.0)
        if kind == "stt" and begun:
            await wire.raw(b" ")
        else:
            await wire.chunk({"llm": delta(" a"), "tts": b"\0\0", "stt": b" "}[kind])


def failing(kind: str, how: str, *, begun: bool) -> Handler:
    async def handler(request: Received, wire: Wire) -> None:
        if begun:
            await _begins(kind, wire)
        match how:
            case "close":
                wire.abort()
            case "garbage":
                await wire.raw(b"\x00\xff garbage " * 50)
            case "crawl":
                await _crawls(kind, wire, begun=begun)
        await asyncio.sleep(3_600)

    return handler


class Silences:
    """The longest one the caller bears, from the last own word on."""

    def __init__(self, call: FakeCall, since_ns: int) -> None:
        self._call = call
        self._last = since_ns
        self._known = len(call.played)
        self.longest_s = 0.0

    async def listen(self, until: Callable[[], bool], limit_s: float) -> None:
        end = now_ns() + int(limit_s * 1e9)
        while now_ns() < end and not until():
            await asyncio.sleep(0.02)
            if len(self._call.played) > self._known:
                self._known, self._last = len(self._call.played), now_ns()
            self.longest_s = max(self.longest_s, (now_ns() - self._last) / 1e9)


async def _call(kind: str, server: Server, heard: list[AgentTurn]) -> float:
    servers: dict[str, Any] = {"llm": FakeLlm(SENTENCE), "tts": FakeTts(), "stt": FakeStt()}
    phrases = PhraseCache(servers["tts"], POLICY.phrases)
    assert await phrases.fill()
    client: LlmClient | TtsClient | SttClient
    if kind == "llm":
        client = LlmClient(Llm(url=server.url, model="m"))
    elif kind == "tts":
        client = TtsClient(Tts(url=server.url, model="m", voice="v"))
    else:
        client = SttClient(Stt(url=server.url, model="m"), "en")
    servers[kind] = client
    call = FakeCall()
    async with client:
        session = CallSession(call, Servers(**servers, phrases=phrases), POLICY, clock=now_ns)
        task = asyncio.create_task(session.run())
        await call.hears_end()
        await call.says("hello there agent")

        def apologised() -> bool:
            turns = [t for t in session.machine.history.turns if isinstance(t, AgentTurn)]
            return any(t.kind is Kind.APOLOGY and t.whole for t in turns)

        silences = Silences(call, now_ns() - 600_000_000)
        await silences.listen(apologised, 30.0)
        heard += [t for t in session.machine.history.turns if isinstance(t, AgentTurn)]
        call.leaves()
        await task
    return silences.longest_s


@pytest.mark.parametrize("begun", [False, True], ids=["before", "in-the-middle"])
@pytest.mark.parametrize("how", ["close", "half-open", "crawl", "garbage"])
@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_a_plug_is_pulled(kind: str, how: str, begun: bool) -> None:
    heard: list[AgentTurn] = []

    async def scenario() -> float:
        server = Server(failing(kind, how, begun=begun))
        async with server.running():
            return await _call(kind, server, heard)

    longest = run(scenario())
    kinds = [t.kind for t in heard if t.samples]
    assert Kind.APOLOGY in kinds, kinds
    assert longest <= LIMIT_S, (longest, kinds)
