# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST /v1/chat/completions``: the scripted language model, as JSON or as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from .errors import ApiError, require_model
from .script import Reply, Script

MODEL = "scripted"

_TOKEN = re.compile(r"\s*\S+")
_ids = itertools.count(1)


def tokens(text: str) -> list[str]:
    """Cut a reply into tokens: words with the space before them; joined they give the text."""
    return _TOKEN.findall(text)


def last_user_message(body: dict[str, Any]) -> str:
    """Text of the last message of role user. Raises ApiError if the messages are malformed."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list that is not empty", param="messages")
    last = ""
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, f"{where} must be an object with a role", param=where)
        if message["role"] == "user":
            last = _content(message.get("content"), where)
    return last


def _content(content: object, where: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part.get("text") for part in parts]
        return " ".join(text for text in texts if isinstance(text, str))
    raise ApiError(400, f"{where}.content must be a text or a list of parts", param=where)


class ChatHandler:
    """Serves a Script. Delays are real time, so that the agent sees a model that takes time."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except (ValueError, UnicodeDecodeError) as error:
            raise ApiError(400, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise ApiError(400, "the body must be a JSON object")
        require_model(body.get("model"), MODEL)
        reply = self._script.reply(last_user_message(body))
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise ApiError(400, "max_tokens must be an integer", param="max_tokens")
        pieces = tokens(reply.text)
        finish = "stop"
        if limit is not None and 0 < limit < len(pieces):
            pieces, finish = pieces[:limit], "length"
        usage = _usage(body, len(pieces))
        head = {"id": f"chatcmpl-{next(_ids)}", "created": int(time.time()), "model": MODEL}
        if body.get("stream") is True:
            options = body.get("stream_options")
            with_usage = isinstance(options, dict) and options.get("include_usage") is True
            return await _stream(
                request, head, reply, pieces, finish, usage if with_usage else None
            )
        text = "".join([piece async for piece in _paced(reply, pieces)])
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": finish,
        }
        return web.json_response(
            {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        )


def _usage(body: dict[str, Any], completion: int) -> dict[str, int]:
    prompt = sum(
        len(tokens(message["content"]))
        for message in body["messages"]
        if isinstance(message.get("content"), str)
    )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


async def _paced(reply: Reply, pieces: list[str]) -> AsyncIterator[str]:
    """The tokens at the script's speed, on absolute time so that small sleeps do not add up."""
    loop = asyncio.get_running_loop()
    start = loop.time() + reply.first_token_s
    step = 1.0 / reply.tokens_per_s if reply.tokens_per_s else 0.0
    for index, piece in enumerate(pieces):
        delay = start + index * step - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        yield piece


async def _stream(
    request: web.Request,
    head: dict[str, Any],
    reply: Reply,
    pieces: list[str],
    finish: str,
    usage: dict[str, int] | None,
) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)

    async def send(delta: dict[str, str], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        await response.write(f"data: {json.dumps(event)}\n\n".encode())

    # A write fails once the client has gone: the rest is not wanted.
    with contextlib.suppress(ConnectionResetError):
        await send({"role": "assistant", "content": ""})
        async for piece in _paced(reply, pieces):
            await send({"content": piece})
        await send({}, finish)
        if usage is not None:
            last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
            await response.write(f"data: {json.dumps(last)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    return response
