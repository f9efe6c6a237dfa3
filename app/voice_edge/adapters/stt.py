# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST {url}/v1/audio/transcriptions``: one caller segment as WAV, its words back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator

import aiohttp

from ..settings import Stt
from .errors import ServerError, Stage
from .http import Budget, ModelServer
from .wav import doubled, halved, wav

_ANSWER_LIMIT = 1 << 20


class SttClient(ModelServer):
    """Any server that transcribes uploads (whisper.cpp, faster-whisper servers, NIM)."""

    name = "stt"
    settings: Stt

    def __init__(self, settings: Stt, language: str) -> None:
        super().__init__(settings)
        self._language = language

    async def transcribe(self, pcm: bytes, rate: int) -> str:
        """The text of int16 mono ``pcm`` of ``rate`` Hz, 8000 or 16000. Raises :class:`ServerError`.

        The audio is one segment of one call, with its pre-roll; nothing is kept between calls. It is
        sent at its own rate unless the settings ask for one.
        """
        wanted = self.settings.rate or rate
        if wanted != rate:
            pcm = await asyncio.to_thread(doubled if wanted > rate else halved, pcm)
        body = wav(pcm, wanted)
        async with contextlib.aclosing(self.stream(lambda b: self._attempt(body, b))) as texts:
            (text,) = [text async for text in texts]
        return text

    async def _attempt(self, body: bytes, budget: Budget) -> AsyncGenerator[str, None]:
        form = aiohttp.FormData()
        form.add_field("file", body, filename="segment.wav", content_type="audio/wav")
        form.add_field("model", self.settings.model)
        form.add_field("language", self._language)
        form.add_field("response_format", "json")
        form.add_field("temperature", "0")
        async with self.post("/v1/audio/transcriptions", budget, data=form) as response:
            answer = b""
            while chunk := await budget.step(response.content.readany(), Stage.BETWEEN_CHUNKS):
                answer += chunk
                if len(answer) > _ANSWER_LIMIT:
                    raise self._protocol("sends an answer that is too long")
            yield self._text(answer, response.content_type)

    def _text(self, answer: bytes, content_type: str) -> str:
        try:
            if content_type == "text/plain":  # some ignore response_format
                return answer.decode("utf-8").strip()
            parsed = json.loads(answer)
        except ValueError:
            raise self._protocol("sends an answer that is not JSON") from None
        text = parsed.get("text") if isinstance(parsed, dict) else None
        if not isinstance(text, str):
            raise self._protocol('sends an answer without "text"')
        return text.strip()

    def _protocol(self, detail: str) -> ServerError:
        return ServerError(self.name, Stage.PROTOCOL, detail, transient=False)
