# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST {url}/v1/audio/speech`` with ``response_format: pcm``: int16 little-endian mono."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..settings import Tts
from .errors import ServerError, Stage
from .http import Budget, ModelServer

# Larger pieces are cut, so that a clear or a full play-out queue never has much in hand.
_PIECE = 32_768


class EvenChunks:
    """Re-cut byte chunks at sample borders; an odd byte waits for the next chunk."""

    def __init__(self) -> None:
        self._carry = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self._carry + chunk
        even = len(data) & ~1
        self._carry = data[even:]
        return data[:even]


class TtsClient(ModelServer):
    """Any server that streams PCM (Kokoro, Orpheus, speaches, vLLM-omni)."""

    name = "tts"
    settings: Tts

    def __init__(self, settings: Tts) -> None:
        super().__init__(settings)

    @property
    def rate(self) -> int:
        return self.settings.rate

    def speak(self, text: str) -> AsyncGenerator[bytes, None]:
        """Yield whole samples at ``settings.rate`` as they come. Raises :class:`ServerError`."""
        body = {
            "model": self.settings.model,
            "voice": self.settings.voice,
            "input": text,
            "response_format": "pcm",
        }
        return self.stream(lambda budget: self._attempt(body, budget))

    async def _attempt(self, body: dict[str, str], budget: Budget) -> AsyncGenerator[bytes, None]:
        async with self.post("/v1/audio/speech", budget, json=body) as response:
            if response.content_type.startswith("text/") or "json" in response.content_type:
                raise self._protocol(f"answers {response.content_type}, not audio")
            even = EvenChunks()
            first = True
            while True:
                stage = Stage.FIRST_BYTE if first else Stage.BETWEEN_CHUNKS
                chunk = await budget.step(response.content.readany(), stage)
                if not chunk:
                    break
                pcm = even.feed(chunk)
                if first and pcm[:4] in (b"RIFF", b"OggS", b"fLaC", b"ID3\x03", b"ID3\x04"):
                    raise self._protocol("sends a file format instead of bare PCM")
                for start in range(0, len(pcm), _PIECE):
                    first = False
                    yield pcm[start : start + _PIECE]
            if first:
                raise ServerError(self.name, Stage.PROTOCOL, "sends no audio", transient=True)

    def _protocol(self, detail: str) -> ServerError:
        return ServerError(self.name, Stage.PROTOCOL, detail, transient=False)
