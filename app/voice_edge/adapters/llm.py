# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST {url}/v1/chat/completions`` with ``stream: true``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import aiohttp

from ..machine.events import Message, ToolCall
from ..settings import Llm
from .errors import ServerError, Stage
from .http import Budget, ModelServer
from .sse import SseError, SseParser

_CALLS_MAX = 16
_ARGUMENTS_MAX = 65_536


class ToolCalls:
    """Tool calls put together from the deltas they come in; what is no call is passed over."""

    def __init__(self) -> None:
        self._parts: dict[int, list[str]] = {}

    def feed(self, deltas: Any) -> None:
        for delta in deltas if isinstance(deltas, list) else ():
            function = delta.get("function") if isinstance(delta, dict) else None
            if not isinstance(function, dict):
                continue
            index = delta.get("index", 0)
            if not isinstance(index, int) or len(self._parts) >= _CALLS_MAX:
                continue
            part = self._parts.setdefault(index, ["", ""])
            for place, key in enumerate(("name", "arguments")):
                text = function.get(key)
                if isinstance(text, str) and len(part[place]) + len(text) <= _ARGUMENTS_MAX:
                    part[place] += text

    def whole(self) -> list[ToolCall]:
        out = []
        for name, text in self._parts.values():
            try:
                arguments = json.loads(text or "{}")
            except ValueError:
                continue
            if name and isinstance(arguments, dict):
                out.append(ToolCall(name, arguments))
        return out


class LlmClient(ModelServer):
    """Any server that streams chat completions (vLLM, SGLang, llama.cpp, Ollama)."""

    name = "llm"
    settings: Llm

    def __init__(self, settings: Llm, tools: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(settings)
        self._tools = list(tools)

    def reply(
        self, messages: Sequence[Message], *, max_tokens: int | None = None
    ) -> AsyncGenerator[str | ToolCall, None]:
        """Yield pieces of the reply's text as they come, tool calls at the end. Raises :class:`ServerError`."""
        body = {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "stream": True,
            "temperature": self.settings.temperature,
            "max_tokens": max_tokens or self.settings.max_tokens,
            **({"tools": self._tools} if self._tools else {}),
            **self.settings.extra,
        }
        return self.stream(lambda budget: self._attempt(body, budget))

    async def _attempt(
        self, body: dict[str, Any], budget: Budget
    ) -> AsyncGenerator[str | ToolCall, None]:
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

    async def _pieces(
        self, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[str | ToolCall, None]:
        parser = SseParser()
        calls = ToolCalls()
        finished = False
        async for chunk in response.content.iter_any():
            try:
                events = parser.feed(chunk)
            except SseError as error:
                raise self._protocol(f"sends a broken event stream ({error})") from None
            for data in events:
                if data.strip() == "[DONE]":
                    for call in calls.whole():
                        yield call
                    return
                text, done = self._delta(data, calls)
                finished = finished or done
                if text:
                    yield text
        if not finished:
            raise ServerError(
                self.name, Stage.CLOSED, "ended the stream before the reply", transient=True
            )
        for call in calls.whole():
            yield call

    def _delta(self, data: str, calls: ToolCalls) -> tuple[str, bool]:
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
        if isinstance(delta, dict) and self._tools:
            calls.feed(delta.get("tool_calls"))
        return text, choice.get("finish_reason") is not None

    def _protocol(self, detail: str) -> ServerError:
        return ServerError(self.name, Stage.PROTOCOL, detail, transient=False)
