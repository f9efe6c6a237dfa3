# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the speech recognition server what a recording says, independently of the agent."""

from __future__ import annotations

import io
import wave

import aiohttp

from ..loopcall import measure
from ..loopcall.g711 import Pcm
from ..loopcall.rtp_peer import RATE
from .problems import DemoError

_MARGIN = RATE // 5  # 200 ms around each stretch of speech
_TIMEOUT = aiohttp.ClientTimeout(total=60)


async def transcribe(
    session: aiohttp.ClientSession, base_url: str, model: str, channel: Pcm
) -> str:
    """Text of one channel, stretch of speech by stretch of speech. Raises DemoError."""
    texts = []
    for first, end in measure.speech_pieces(channel):
        piece = channel[max(0, first - _MARGIN) : end + _MARGIN]
        form = aiohttp.FormData()
        form.add_field("file", _wav(piece), filename="piece.wav", content_type="audio/wav")
        form.add_field("model", model)
        form.add_field("response_format", "json")
        url = f"{base_url}/v1/audio/transcriptions"
        try:
            async with session.post(url, data=form, timeout=_TIMEOUT) as response:
                response.raise_for_status()
                texts.append(str((await response.json())["text"]).strip())
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
            raise DemoError(f"the recording could not be transcribed by {url}: {error}") from error
    return " ".join(texts)


def _wav(pcm: Pcm) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm.astype("<i2").tobytes())
    return buffer.getvalue()
