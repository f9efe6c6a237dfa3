# SPDX-License-Identifier: GPL-3.0-or-later
"""Several servers of one kind: the first that works answers, and those that fail are left alone a while.

A server that failed is asked last until it answers ``GET /v1/models`` again, which is tried after
1, 2, 4 … 30 s. What answers that and fails the next request goes on where its back-off was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from ..machine.events import Message, ToolCall
from .errors import ServerError, Stage
from .http import ModelServer
from .llm import LlmClient
from .stt import SttClient
from .tts import TtsClient

_log = logging.getLogger(__name__)

BACKOFF_MIN_S = 1.0
BACKOFF_MAX_S = 30.0
_LOOK_S = 0.5
# One failure may be the request's; the next one is the server's.
_DOWN_AFTER = 2
# A request that no server of this kind takes says nothing about the server.
_OUR_FAULT = frozenset({400, 413, 422})

C = TypeVar("C", bound=ModelServer)
T = TypeVar("T")


@dataclass(slots=True)
class Member(Generic[C]):
    """One server, and whether it is worth asking."""

    client: C
    label: str
    failures: int = 0  # in a row
    broken: bool = False
    retry_at: float = 0.0  # of the loop's clock

    @property
    def down(self) -> bool:
        """Broken for sure, not by a single failure."""
        return self.broken and self.failures >= _DOWN_AFTER

    def succeeded(self) -> None:
        if self.failures:
            _log.info("%s is back", self.label)
        self.failures, self.broken = 0, False

    def failed(self, error: ServerError | None) -> None:
        if error is not None and error.status in _OUR_FAULT:
            return
        self.failures += 1
        self.broken = True
        pause = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2.0 ** min(self.failures - 1, 10))
        self.retry_at = asyncio.get_running_loop().time() + pause


class Pool(Generic[C]):
    """Servers in the order they are asked; open with ``async with``."""

    def __init__(self, clients: Sequence[C], failover_s: float) -> None:
        name = clients[0].name
        self.members = [
            Member(client, name if not i else f"{name} backup {i}")
            for i, client in enumerate(clients)
        ]
        self._failover_s = failover_s
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        for member in self.members:
            await self._stack.enter_async_context(member.client)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    @property
    def name(self) -> str:
        return self.members[0].client.name

    @property
    def up(self) -> bool:
        """Whether a call can expect an answer of one of them."""
        return not all(m.down for m in self.members)

    def _order(self) -> list[tuple[Member[C], bool]]:
        """(server, whether another one is left): those that work before those that do not."""
        ordered = sorted(self.members, key=lambda m: m.broken)
        return [(m, m is not ordered[-1]) for m in ordered]

    async def _watched(
        self, member: Member[C], items: AsyncGenerator[T, None], *, hurry: bool
    ) -> AsyncGenerator[T, None]:
        """What the server yields; with another server left it gets less time for each item."""
        stage = Stage.FIRST_BYTE
        async with contextlib.aclosing(items):
            while True:
                try:
                    async with asyncio.timeout(self._failover_s if hurry else None):
                        item = await anext(items)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    raise ServerError(
                        self.name, stage, f"nothing within {self._failover_s:g} s", transient=True
                    ) from None
                if stage is Stage.FIRST_BYTE:
                    member.succeeded()
                stage = Stage.BETWEEN_CHUNKS
                yield item

    def _next(self, member: Member[C], error: ServerError, *, left: bool) -> None:
        """The server failed: on to the next, or raise its error."""
        member.failed(error)
        if not left:
            raise error
        _log.warning("%s failed, asking another: %s", member.label, error)

    async def keep_probing(self) -> None:
        """Bring servers that work again back to use. Runs until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            for member in self.members:
                if not member.broken or member.retry_at > now:
                    continue
                if await member.client.probe():
                    member.broken = False
                else:
                    member.failed(None)

    def health(self) -> list[tuple[str, bool]]:
        """(label, whether it works) of each server."""
        return [(m.label, not m.broken) for m in self.members]


class LlmPool(Pool[LlmClient]):
    def __init__(
        self, clients: Sequence[LlmClient], failover_s: float, continue_prompt: str
    ) -> None:
        super().__init__(clients, failover_s)
        self._continue = continue_prompt

    async def reply(self, messages: Sequence[Message]) -> AsyncGenerator[str | ToolCall, None]:
        """As :meth:`.LlmClient.reply`; a server that takes over is shown what was said so far."""
        said = ""
        for member, left in self._order():
            more = (Message("assistant", said), Message("user", self._continue)) if said else ()
            pieces = member.client.reply([*messages, *more])
            try:
                async with contextlib.aclosing(
                    self._watched(member, pieces, hurry=left)
                ) as watched:
                    async for piece in watched:
                        if isinstance(piece, ToolCall):
                            yield piece
                            continue
                        if more and said[-1:].isalnum() and piece[:1].isalnum():
                            piece = " " + piece
                        more = ()
                        said += piece
                        yield piece
            except ServerError as error:
                self._next(member, error, left=left)
            else:
                return


class TtsPool(Pool[TtsClient]):
    @property
    def rate(self) -> int:
        return self.members[0].client.rate

    async def speak(self, text: str) -> AsyncGenerator[bytes, None]:
        """As :meth:`.TtsClient.speak`; a server that takes over says the sentence from its beginning."""
        for member, left in self._order():
            chunks = member.client.speak(text)
            try:
                async with contextlib.aclosing(
                    self._watched(member, chunks, hurry=left)
                ) as watched:
                    async for chunk in watched:
                        yield chunk
            except ServerError as error:
                self._next(member, error, left=left)
            else:
                return


class SttPool(Pool[SttClient]):
    async def transcribe(self, pcm: bytes, rate: int) -> str:
        """As :meth:`.SttClient.transcribe`; a server that takes over gets the same audio."""
        for member, left in self._order():
            texts = self._watched(member, _once(member.client, pcm, rate), hurry=left)
            try:
                async with contextlib.aclosing(texts):
                    async for text in texts:
                        return text
            except ServerError as error:
                self._next(member, error, left=left)
        raise AssertionError("the last server neither answered nor failed")


async def _once(client: SttClient, pcm: bytes, rate: int) -> AsyncGenerator[str, None]:
    yield await client.transcribe(pcm, rate)
