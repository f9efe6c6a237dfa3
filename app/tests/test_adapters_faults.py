# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients against servers that stall, crawl, break off, send garbage or are not there."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from voice_edge.adapters import LlmClient, ServerError, Stage

from .asking import ASK, PCM, ask, everything, mute
from .servers import Received, Server, Wire, delta
from .virtual import run

# --- deadlines ---


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_server_that_accepts_and_says_nothing(kind: str) -> None:
    out = ask(kind, mute)
    error = out.failed(Stage.FIRST_BYTE)
    assert error.transient
    assert f"{kind}.first_byte_s" in str(error)
    assert out.took_s == pytest.approx(5.0, abs=0.2)
    assert len(out.server.requests) == 1  # a caller who has waited is not made to wait again
    assert out.client.metrics.failures == {"first_byte": 1}


@pytest.mark.parametrize("kind", ["llm", "tts"])
def test_headers_alone_are_no_answer(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream" if kind == "llm" else "audio/pcm")
        await asyncio.sleep(3_600)

    assert ask(kind, handler).failed(Stage.FIRST_BYTE)


def test_comments_alone_are_no_answer() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream")
        while True:
            await wire.chunk(b": ping\n\n" + delta(""))
            await asyncio.sleep(0.5)

    out = ask("llm", handler)
    out.failed(Stage.FIRST_BYTE)
    assert out.took_s < 6


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_server_that_stalls_half_way(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        if kind == "llm":
            await wire.head("text/event-stream")
            await wire.chunk(delta("Hello"))
        else:
            await wire.head("audio/pcm" if kind == "tts" else "application/json")
            await wire.chunk(b'{"te')
        await asyncio.sleep(3_600)

    out = ask(kind, handler)
    assert out.failed(Stage.BETWEEN_CHUNKS).transient
    assert out.took_s == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_server_that_crawls_meets_the_total(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        kinds = {"llm": "text/event-stream", "tts": "audio/pcm", "stt": "application/json"}
        await wire.head(kinds[kind])
        while True:
            await wire.chunk(delta("a") if kind == "llm" else b'"a')
            await asyncio.sleep(2.5)

    out = ask(kind, handler)
    assert out.failed(Stage.TOTAL).transient
    assert out.took_s == pytest.approx(20.0, abs=0.5)


def test_time_the_consumer_takes_is_not_the_servers() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.sse(*"abcdefgh")

    async def scenario() -> None:
        async with Server(handler).running() as server, LlmClient(server.llm()) as client:
            text = ""
            async with contextlib.aclosing(client.reply(ASK)) as pieces:
                async for piece in pieces:
                    text += str(piece)
                    await asyncio.sleep(6.0)
            assert text == "abcdefgh"

    run(scenario())


# --- connections that fail ---


def _unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_nobody_listens(kind: str) -> None:
    out = ask(kind, mute, url=f"http://127.0.0.1:{_unused_port()}")
    error = out.failed(Stage.CONNECT)
    assert error.transient
    assert f"{kind}.url" in str(error)
    assert out.client.metrics.retries == 1


def test_connection_that_is_never_accepted() -> None:
    """A listener whose backlog is full leaves the SYN unanswered."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as listener, contextlib.ExitStack() as stack:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(4):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with LlmClient(Server(mute).llm(url=url)) as client:
                began = loop.time()
                with pytest.raises(ServerError) as caught:
                    await everything(client.reply(ASK))
                assert caught.value.stage is Stage.CONNECT
                assert loop.time() - began < 3

    run(scenario())


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_broken_once_is_repeated_once(kind: str) -> None:
    async def reset(request: Received, wire: Wire) -> None:
        wire.abort()

    async def good(request: Received, wire: Wire) -> None:
        if kind == "llm":
            await wire.sse("Hello")
        elif kind == "tts":
            await wire.whole("audio/pcm", PCM)
        else:
            await wire.whole("application/json", b'{"text": "Hello"}')

    out = ask(kind, reset, good)
    assert out.error is None
    assert out.items
    assert len(out.server.requests) == 2
    assert out.server.requests[0].body.count(b"RIFF") == out.server.requests[1].body.count(b"RIFF")
    assert out.client.metrics.retries == 1


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
@pytest.mark.parametrize(
    ("status", "transient"), [(400, False), (401, False), (404, False), (429, True), (500, True)]
)
def test_http_status(kind: str, status: int, transient: bool) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("application/json", b'{"error": "caller said sesame"}', status)

    out = ask(kind, handler)
    error = out.failed(Stage.STATUS)
    assert error.transient is transient
    assert error.status == status
    assert len(out.server.requests) == (2 if transient else 1)
    assert "sesame" not in str(error)  # what a server says may repeat what the caller said


def test_redirect_is_not_followed() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.raw(
            b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.9:1/\r\nContent-Length: 0\r\n\r\n"
        )

    assert ask("llm", handler).failed(Stage.STATUS).status == 307


@pytest.mark.parametrize("kind", ["llm", "tts"])
def test_closed_half_way_is_not_repeated(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        if kind == "llm":
            await wire.head("text/event-stream")
            await wire.chunk(delta("Hello"))
        else:
            await wire.head("audio/pcm")
            await wire.chunk(PCM[:2_000])
        await asyncio.sleep(0.1)
        wire.abort()

    out = ask(kind, handler)
    assert out.failed(Stage.CLOSED).transient
    assert out.items  # what came was given
    assert len(out.server.requests) == 1


def test_llm_stream_that_ends_without_done_or_reason() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.sse("Hello", done=False)

    assert ask("llm", handler).failed(Stage.CLOSED)


def test_llm_stream_that_ends_with_a_reason_only() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream")
        await wire.chunk(delta("Hello"))
        await wire.chunk(delta("", finish_reason="stop"))
        await wire.end()

    out = ask("llm", handler)
    assert out.error is None
    assert out.text == "Hello"


# --- garbage ---


def test_llm_error_inside_the_stream() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream")
        await wire.chunk(delta("Hello"))
        await wire.chunk(b'data: {"error": {"message": "sesame", "code": 500}}\n\n')
        await wire.end()

    out = ask("llm", handler)
    assert "sesame" not in str(out.failed(Stage.SERVER))
    assert out.items == ["Hello"]


@pytest.mark.parametrize(
    "data",
    [
        b"data: {not json}\n\n",
        b"data: [1, 2]\n\n",
        b'data: {"choices": [7]}\n\n',
        b'data: {"choices": {"a": 1}}\n\n',
        b"data: \xff\xfe\n\n",
        b"data: " + b"x" * (2 << 20),
    ],
)
def test_llm_garbage_in_the_stream(data: bytes) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream")
        await wire.chunk(data)
        await wire.end()

    assert not ask("llm", handler).failed(Stage.PROTOCOL).transient


@pytest.mark.parametrize("kind", ["llm", "tts", "stt"])
def test_not_even_http(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.raw(b"SIP/2.0 400 What?\r\n\r\n")
        await asyncio.sleep(1)

    assert not ask(kind, handler).failed(Stage.PROTOCOL).transient


def test_llm_that_does_not_stream() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("application/json", b"{}")

    assert ask("llm", handler).failed(Stage.PROTOCOL)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("text/html", b"<html>"),
        ("audio/wav", b"RIFF" + bytes(100)),
        ("audio/pcm", b""),
        ("audio/pcm", b"x"),
    ],
)
def test_tts_that_sends_no_pcm(kind: str, body: bytes) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole(kind, body)

    assert ask("tts", handler).failed(Stage.PROTOCOL)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"txt": ""}', b'{"text": 7}', b"\xff", b'"' + b"x" * (2 << 20)]
)
def test_stt_that_sends_no_text(body: bytes) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("application/json", body)

    assert not ask("stt", handler).failed(Stage.PROTOCOL).transient
