# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the model servers: what they ask, what they take, how they are cancelled."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from voice_edge.adapters import LlmClient, SttClient, TtsClient

from .asking import ASK, PCM, ask, everything, mute
from .servers import Received, Server, Wire, delta
from .virtual import run

# --- what is asked, and a regular answer ---


def test_llm_request_and_reply() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.sse("Ich ", "heiße ", "", "Ada.")

    out = ask("llm", handler, extra={"top_p": 0.9, "chat_template_kwargs": {"x": False}})
    assert out.error is None
    assert out.text == "Ich heiße Ada."
    (request,) = out.server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sesame-77"
    assert request.json["messages"][1] == {"role": "user", "content": "Wie heißt du?"}
    assert request.json["stream"] is True
    assert request.json["top_p"] == 0.9
    assert out.client.metrics.requests == 1
    assert len(out.client.metrics.first_ms) == len(out.client.metrics.total_ms) == 1


def test_tts_request_and_audio() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("audio/pcm")
        await wire.chunk(PCM)
        await wire.end()

    out = ask("tts", handler)
    assert b"".join(out.items) == PCM
    (request,) = out.server.requests
    assert request.path == "/v1/audio/speech"
    assert request.json == {
        "model": "m",
        "voice": "v",
        "input": "Grüß Gott.",
        "response_format": "pcm",
    }


@pytest.mark.parametrize("line", [8_000, 16_000])
@pytest.mark.parametrize("asked", [None, 8_000, 16_000])
def test_stt_request_and_text(asked: int | None, line: int) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("application/json", '{"text": " Grüß Gott. "}'.encode())

    out = ask("stt", handler, line=line, rate=asked)
    assert out.items == ["Grüß Gott."]
    (request,) = out.server.requests
    assert request.path == "/v1/audio/transcriptions"
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="language"\r\n\r\nde' in request.body
    assert b'name="model"\r\n\r\nm' in request.body
    wav = request.body[request.body.index(b"RIFF") :]
    rate = asked or line
    size = len(PCM) * rate // line
    assert struct.unpack_from("<HHIIHH", wav, 20) == (1, 1, rate, rate * 2, 2, 16)
    assert struct.unpack_from("<4sI", wav, 36) == (b"data", size)
    samples = wav[44 : 44 + size]
    if rate == line:
        assert samples == PCM
    elif rate > line:
        assert samples[0:2] == PCM[0:2]


def test_stt_accepts_plain_text() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("text/plain", "Grüß Gott\n".encode())

    assert ask("stt", handler).items == ["Grüß Gott"]


# --- cut at any byte ---


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_llm_stream_cut_anywhere(size: int, newline: str) -> None:
    stream = (
        "\ufeff: a comment\n\n"
        + "event: message\nid: 7\n"
        + delta("Grüß ").decode()
        + ": ping\n\n"
        + delta("Gott 👋").decode()
        + 'data: {"choices": [],\ndata: "usage": {"total_tokens": 9}}\n\n'
        + "data:[DONE]\n\n"
    )
    data = stream.replace("\n", newline).encode()

    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream; charset=utf-8")
        for start in range(0, len(data), size):
            await wire.chunk(data[start : start + size])
        await wire.end()

    out = ask("llm", handler)
    assert out.error is None, out.error
    assert out.text == "Grüß Gott 👋"


@pytest.mark.parametrize("size", [1, 3, 1_697, 4_063, 60_000])
def test_b45_odd_chunks_give_the_same_audio(size: int) -> None:
    audio = PCM if size > 1 else PCM[:500]

    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("audio/pcm")
        for start in range(0, len(audio), size):
            await wire.chunk(audio[start : start + size])
            if start < 5 * size:
                await asyncio.sleep(0.01)
        await wire.end()

    out = ask("tts", handler)
    assert b"".join(out.items) == audio
    assert all(len(item) % 2 == 0 for item in out.items)


def test_b45_an_odd_byte_at_the_end_does_not_reach_the_next_utterance() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("audio/pcm", PCM[:1_001])

    async def scenario() -> None:
        async with Server(handler).running() as server, TtsClient(server.tts()) as client:
            for _ in range(2):
                assert b"".join(await everything(client.speak("x"))) == PCM[:1_000]

    run(scenario())


# --- cancellation ---


@pytest.mark.parametrize("kind", ["llm", "tts"])
def test_cancelled_request_is_closed_at_the_server(kind: str) -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream" if kind == "llm" else "audio/pcm")
        while True:
            await wire.chunk(delta("word ") if kind == "llm" else PCM[:640])
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        async with Server(handler).running() as server:
            client: LlmClient | TtsClient
            if kind == "llm":
                client = llm = LlmClient(server.llm())
                items: AsyncGenerator[Any, None] = llm.reply(ASK)
            else:
                client = tts = TtsClient(server.tts())
                items = tts.speak("x")
            async with client:
                task = asyncio.create_task(everything(items))
                await asyncio.sleep(1.0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.sleep(0.2)
                assert server.closed_by_client == 1
                assert client.metrics.cancelled == 1
                assert not client.metrics.failures

    run(scenario())


def test_one_client_serves_many_requests_over_few_connections() -> None:
    async def handler(request: Received, wire: Wire) -> None:
        await wire.whole("application/json", b'{"text": "ok"}')

    async def scenario() -> None:
        async with Server(handler).running() as server, SttClient(server.stt(), "en") as client:
            for _ in range(5):
                assert await client.transcribe(PCM, 8_000) == "ok"
            assert server.connections == 1
            assert client.metrics.requests == len(client.metrics.total_ms) == 5
            assert client.metrics.cancelled == 0
            assert "requests=5" in client.metrics.summary()

    run(scenario())


def test_client_outside_its_context_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        run(everything(LlmClient(Server(mute).llm()).reply(ASK)))
