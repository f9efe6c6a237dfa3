# SPDX-License-Identifier: GPL-3.0-or-later
"""Voice activity by the stock model: a call whose caller is heard by onnxruntime."""

from __future__ import annotations

import wave
from pathlib import Path

import onnxruntime
import pytest

from loopback import Pair, StartEngine, next_of, soon
from voicecore import ConfigError, EngineConfig, SpeechEnded, SpeechStarted

SOUNDS = Path("/usr/share/asterisk/sounds/en_US_f_Allison")


def library() -> Path:
    return next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))


async def test_speech_is_heard_on_calls_of_both_rates(start_engine: StartEngine) -> None:
    with wave.open(str(SOUNDS / "agent-alreadyon.wav")) as sound:
        said = sound.readframes(sound.getnframes())
    for codec, rate in (("PCMA", 8000), ("G722", 16_000)):
        settings = {"codecs": (codec,)}
        callee = await start_engine(vad_onnxruntime=library(), **settings)
        pair = Pair(await start_engine(**settings), callee)
        out, into = await pair.connect()
        assert into.rate == rate
        out.play(said + bytes(16_000), 8000, 1)
        started = await soon(next_of(into, SpeechStarted))
        ended = await soon(next_of(into, SpeechEnded))
        assert ended.at_ns - started.at_ns > 0.5e9
        out.hangup()


def test_what_is_no_onnxruntime_is_refused(tmp_path: Path) -> None:
    assert EngineConfig(vad_onnxruntime=library()).vad_onnxruntime == str(library())
    assert EngineConfig().vad_onnxruntime is None
    nothing = tmp_path / "libonnxruntime.so"
    nothing.write_bytes(b"no library")
    with pytest.raises(ConfigError, match="vad_onnxruntime"):
        EngineConfig(vad_onnxruntime=tmp_path / "missing.so")
    with pytest.raises(ConfigError, match="vad_onnxruntime"):
        EngineConfig(vad_onnxruntime=nothing)
