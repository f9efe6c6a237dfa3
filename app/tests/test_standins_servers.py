# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins' HTTP protocols with fakes in place of the models."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from voice_edge_standins.audio import RECOGNISER_RATE, Samples, decode_wav, double_rate
from voice_edge_standins.errors import ApiError
from voice_edge_standins.script import parse
from voice_edge_standins.server import Models, make_app, write_port_file

SCRIPT = {
    "model": {"first_token_s": 0, "tokens_per_s": 0},
    "rule": [{"any": ["weasels"], "reply": "Count the weasels."}],
    "default": {"reply": "Pardon?"},
}
CHAT = "/v1/chat/completions"
SPEECH = "/v1/audio/speech"
HEAR = "/v1/audio/transcriptions"


class FakeRecogniser:
    def __init__(self) -> None:
        self.heard: list[Samples] = []

    def transcribe(self, samples: Samples) -> str:
        self.heard.append(samples)
        return f"{len(samples)} samples"


class FakeVoice:
    """Speaks two bytes a character, sentence by sentence; remembers how far it came."""

    rate = 22050

    def __init__(self) -> None:
        self.spoken: list[str] = []

    def speak(self, text: str, speed: float) -> Iterator[bytes]:
        for sentence in text.split("."):
            self.spoken.append(sentence)
            yield int(speed).to_bytes(2, "little") * len(sentence)


Client = TestClient[Any, Any]


@pytest.fixture
def models() -> Models:
    return Models(FakeRecogniser(), FakeVoice(), parse(SCRIPT))


@pytest.fixture
async def client(models: Models) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_app(models))) as client:
        yield client


def wav_file(rate: int, samples: int, *, width: int = 2, channels: int = 1) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(b"\1" * (samples * width * channels))
    return buffer.getvalue()


def form(audio: bytes | None = None, **fields: str) -> aiohttp.FormData:
    data = aiohttp.FormData()
    data.add_field("file", wav_file(8000, 80) if audio is None else audio, filename="a.wav")
    for name, value in ({"model": "whisper-tiny.en"} | fields).items():
        data.add_field(name, value)
    return data


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "weasels"},
        {"role": "user", "content": text},
        {"role": "assistant", "content": "weasels"},
    ]
    return {"model": "scripted", "messages": messages} | more


async def error_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


# Language model


async def test_only_the_users_last_message_counts(client: Client) -> None:
    for text, reply in (("hi", "Pardon?"), ("The WEASELS!", "Count the weasels.")):
        body = await (await client.post(CHAT, json=chat(text))).json()
        assert body["choices"][0]["message"] == {"role": "assistant", "content": reply}
        assert body["choices"][0]["finish_reason"] == "stop"


async def test_content_may_come_in_parts(client: Client) -> None:
    parts = [{"type": "text", "text": "weasels"}, {"type": "image_url", "image_url": {}}]
    message = {"role": "user", "content": parts}
    body = await (await client.post(CHAT, json=chat(messages=[message]))).json()
    assert body["choices"][0]["message"]["content"] == "Count the weasels."


async def test_the_stream_holds_the_same_text_and_ends_with_done(client: Client) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    response = await client.post(CHAT, json=chat("weasels", **options))
    assert response.content_type == "text/event-stream"
    events = (await response.text()).strip().split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    assert events.pop() == "data: [DONE]"
    chunks = [json.loads(event[6:]) for event in events]
    usage = chunks.pop()
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3)
    deltas = [chunk["choices"][0] for chunk in chunks]
    assert "".join(d["delta"].get("content", "") for d in deltas) == "Count the weasels."
    assert [d["finish_reason"] for d in deltas] == [None] * 4 + ["stop"]


async def test_max_tokens_cuts(client: Client) -> None:
    body = await (await client.post(CHAT, json=chat("weasels", max_tokens=2))).json()
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Count the", "length")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (chat(model="gpt"), 404, "model"),
        ({"messages": []}, 400, "model"),
        (chat(messages=[]), 400, "messages"),
        (chat(messages=["x"]), 400, "messages[0]"),
        (chat(messages=[{"role": "user", "content": 3}]), 400, "messages[0]"),
        (chat(max_tokens="many"), 400, "max_tokens"),
        ([], 400, None),
    ],
)
async def test_bad_chats_are_refused(client: Client, body: Any, status: int, param: str) -> None:
    response = await client.post(CHAT, json=body)
    assert response.status == status
    assert (await error_of(response))["param"] == param


# Voice


async def test_pcm_is_streamed_with_its_rate(client: Client) -> None:
    body = {"model": "joe-us-piper", "input": "ab.cde", "response_format": "pcm", "speed": 2}
    response = await client.post(SPEECH, json=body)
    assert response.headers["Content-Type"] == "audio/pcm; rate=22050; channels=1"
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert await response.read() == b"\2\0" * 5


async def test_wav_is_whole(client: Client) -> None:
    body = {"model": "joe-us-piper", "input": "ab.cde", "voice": "joe"}
    data = await (await client.post(SPEECH, json=body)).read()
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnframes(), file.getnchannels()) == (22050, 5, 1)


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "tts-1"}, 404, "model"),
        ({"input": " "}, 400, "input"),
        ({"input": "x" * 4097}, 400, "input"),
        ({"voice": "alloy"}, 400, "voice"),
        ({"response_format": "mp3"}, 400, "response_format"),
        ({"speed": 9}, 400, "speed"),
        ({"speed": True}, 400, "speed"),
    ],
)
async def test_bad_speech_is_refused(
    client: Client, change: dict[str, Any], status: int, param: str
) -> None:
    body = {"model": "joe-us-piper", "input": "hello"} | change
    response = await client.post(SPEECH, json=body)
    assert response.status == status
    assert (await error_of(response))["param"] == param


# Recognition


@pytest.mark.parametrize(("rate", "samples"), [(8000, 400), (16000, 800)])
async def test_both_rates_reach_the_recogniser_at_16_khz(
    client: Client, models: Models, rate: int, samples: int
) -> None:
    response = await client.post(HEAR, data=form(wav_file(rate, samples), language="en"))
    assert await response.json() == {"text": "800 samples"}
    assert isinstance(models.recogniser, FakeRecogniser)
    assert models.recogniser.heard[0].dtype == np.float32


async def test_text_and_verbose_answers(client: Client) -> None:
    response = await client.post(HEAR, data=form(response_format="text"))
    assert (response.content_type, await response.text()) == ("text/plain", "160 samples\n")
    body = await (await client.post(HEAR, data=form(response_format="verbose_json"))).json()
    assert body["duration"] == 160 / RECOGNISER_RATE


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "whisper-1"}, 404, "model"),
        ({"language": "fr"}, 400, "language"),
        ({"response_format": "srt"}, 400, "response_format"),
        ({"audio": b"RIFF"}, 400, "file"),
        ({"audio": wav_file(8000, 80, width=1)}, 400, "file"),
        ({"audio": wav_file(44100, 80)}, 400, "file"),
        ({"audio": wav_file(8000, 0)}, 400, "file"),
    ],
)
async def test_bad_audio_is_refused(
    client: Client, change: dict[str, Any], status: int, param: str
) -> None:
    response = await client.post(HEAR, data=form(**change))
    assert response.status == status
    assert (await error_of(response))["param"] == param


async def test_a_form_without_a_file_or_no_form_is_refused(client: Client) -> None:
    with aiohttp.MultipartWriter("form-data") as writer:
        part = writer.append("whisper-tiny.en")
        part.set_content_disposition("form-data", name="model")
    response = await client.post(HEAR, data=writer)
    assert (await error_of(response))["param"] == "file"
    response = await client.post(HEAR, json={})
    assert response.status == 400
    await error_of(response)


# The rest


async def test_models_health_and_unknown_paths(client: Client) -> None:
    listed = await (await client.get("/v1/models")).json()
    assert {model["id"] for model in listed["data"]} == {
        "scripted",
        "whisper-tiny.en",
        "joe-us-piper",
    }
    assert (await client.get("/health")).status == 200
    response = await client.get("/v1/nothing")
    assert response.status == 404
    await error_of(response)


async def test_a_fault_of_ours_is_a_500_without_its_details(
    client: Client, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Samples) -> str:
        raise RuntimeError("secret")

    monkeypatch.setattr(models.recogniser, "transcribe", fail)
    response = await client.post(HEAR, data=form())
    assert response.status == 500
    error = await error_of(response)
    assert error["type"] == "server_error"
    assert "secret" not in error["message"]


def test_interpolation_keeps_the_samples_and_follows_a_tone_between_them() -> None:
    tone = np.sin(2 * np.pi * 1000 / 8000 * np.arange(800)).astype(np.float32)
    doubled = double_rate(tone)
    wanted = np.sin(2 * np.pi * 1000 / 16000 * np.arange(1600))
    assert np.array_equal(doubled[0::2], tone)
    assert np.max(np.abs(doubled[100:-100] - wanted[100:-100])) < 1e-3


def test_stereo_is_averaged() -> None:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.array([[16384, 0], [-16384, 0]], dtype="<i2").tobytes())
    assert decode_wav(buffer.getvalue()).tolist() == [0.25, -0.25]
    with pytest.raises(ApiError):
        decode_wav(b"")


def test_the_port_file_appears_whole(tmp_path: Path) -> None:
    write_port_file(tmp_path / "port", 4711)
    assert [path.name for path in tmp_path.iterdir()] == ["port"]
    assert (tmp_path / "port").read_text() == "4711\n"
