# SPDX-License-Identifier: GPL-3.0-or-later
"""One request of an adapter to a server that behaves as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable
from typing import Any

from voice_edge.adapters import LlmClient, ServerError, Stage, SttClient, TtsClient
from voice_edge.adapters.http import ModelServer
from voice_edge.machine.events import Message

from .servers import Handler, Received, Server, Wire
from .virtual import run

ASK = [Message("system", "Help."), Message("user", "Wie heißt du?")]
PCM = bytes(itertools.islice(itertools.cycle(range(251)), 60_000))


async def everything(items: AsyncGenerator[Any, None]) -> list[Any]:
    async with contextlib.aclosing(items) as stream:
        return [item async for item in stream]


class Outcome:
    """What one request to a server came to."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.error: ServerError | None = None
        self.took_s = 0.0
        self.client: ModelServer
        self.server: Server

    @property
    def text(self) -> str:
        return "".join(self.items)

    def failed(self, stage: Stage) -> ServerError:
        assert self.error is not None, f"wanted {stage}, got {self.items}"
        assert self.error.stage is stage, self.error
        return self.error


def ask(kind: str, *handlers: Handler, line: int = 8_000, **settings: Any) -> Outcome:
    """One request on virtual time; `line` is the rate of the audio to recognise."""
    out = Outcome()

    async def scenario() -> None:
        out.server = Server(*handlers)
        async with out.server.running() as server:
            client: LlmClient | TtsClient | SttClient
            if kind == "llm":
                client = llm = LlmClient(server.llm(**settings))
                work: Callable[[], AsyncGenerator[Any, None]] = lambda: llm.reply(ASK)  # noqa: E731
            elif kind == "tts":
                client = tts = TtsClient(server.tts(**settings))
                work = lambda: tts.speak("Grüß Gott.")  # noqa: E731
            else:
                client = stt = SttClient(server.stt(**settings), "de")

                async def transcribe() -> AsyncGenerator[str, None]:
                    yield await stt.transcribe(PCM, line)

                work = transcribe
            out.client = client
            loop = asyncio.get_running_loop()
            began = loop.time()
            async with client:
                try:
                    async with contextlib.aclosing(work()) as items:
                        async for item in items:
                            out.items.append(item)
                except ServerError as error:
                    out.error = error
                out.took_s = loop.time() - began

    run(scenario())
    return out


async def mute(request: Received, wire: Wire) -> None:
    await asyncio.sleep(3_600)
