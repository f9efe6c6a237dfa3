# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST {url}/v1/chat/completions`` with ``stream: true``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import aiohttp

from ..machine.events import Message
from ..settings import Llm
from .errors import ServerError, Stage
from .http import Budget, ModelServer
from .sse import SseError, SseParser


class LlmClient(ModelServer):
    """Any server that streams chat completions (vLLM, SGLang, llama.cpp, Ollama)."""

    name = "llm"
    settings: Llm

    def __init__(self, settings: Llm) -> None:
        super().__init__(settings)

    def reply(
        self, messages: Sequence[Message], *, max_tokens: int | None = None
    ) -> AsyncGenerator[str, None]:
        """Yield pieces of the reply's text as they come. Raises :class:`ServerError`."""
        body = {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "stream": True,
            "temperature": self.settings.temperature,
            "max_tokens": max_tokens or self.settings.max_tokens,
            **self.settings.extra,
        }
        return self.stream(lambda budget: self._attempt(body, budget))

    async def _attempt(self, body: dict[str, Any], budget: Budget) -> AsyncGenerator[str, None]:
        async with self.post("/v1/chat/completions", budget, json=body) as response:
            if response.content_type != "text/event-stream":
                raise self._protocol(f"answers {response.content_type}, not text/event-stream")
            # The deadlines run to the next piece of text, not to the next byte: a server that
            # only sends comments or empty deltas has not answered.
            pieces = self._pieces(response)
            stage = Stage.FIRST_BYTE
            async with contextlib.aclosing(pieces):
                while (piece := await budget.step(anext(pieces, None), stage)) is not None:
                    stage = Stage.BETWEEN_CHUNKS
                    yield piece

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[str, None]:
        parser = SseParser()
        finished = False
        async for chunk in response.content.iter_any():
            try:
                events = parser.feed(chunk)
            except SseError as error:
                raise self._protocol(f"sends a broken event stream ({error})") from None
            for data in events:
                if data.strip() == "[DONE]":
                    return
                text, done = self._delta(data)
                finished = finished or done
                if text:
                    yield text
        if not finished:
            raise ServerError(
                self.name, Stage.CLOSED, "ended the stream before the reply", transient=True
            )

    def _delta(self, data: str) -> tuple[str, bool]:
        """(text, whether the reply is complete) of one chunk."""
        try:
            chunk = json.loads(data)
        except ValueError:
            raise self._protocol("sends a chunk that is not JSON") from None
        if not isinstance(chunk, dict):
            raise self._protocol("sends a chunk that is not an object")
        if chunk.get("error"):
            raise ServerError(
                self.name, Stage.SERVER, "reports an error in its answer", transient=True
            )
        choices = chunk.get("choices")
        if not choices:  # the usage chunk at the end has none
            return "", False
        choice = choices[0] if isinstance(choices, list) else None
        if not isinstance(choice, dict):
            raise self._protocol("sends a chunk without a choice")
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        text = content if isinstance(content, str) else ""
        return text, choice.get("finish_reason") is not None

    def _protocol(self, detail: str) -> ServerError:
        return ServerError(self.name, Stage.PROTOCOL, detail, transient=False)
