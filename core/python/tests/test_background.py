# SPDX-License-Identifier: GPL-3.0-or-later
"""What is heard behind the agent, at its far end."""

from __future__ import annotations

import asyncio
import math
import wave
from collections.abc import Sequence
from pathlib import Path

import pytest

from loopback import PATIENCE_S, Pair, StartEngine, collect, sine, soon
from voicecore import Background, Call, CallGone, ConfigError


def heard(path: str) -> list[int]:
    """The far end's channel of a recording."""
    with wave.open(path) as file:
        samples = memoryview(file.readframes(file.getnframes())).cast("h")
    return samples[0::2].tolist()


def dbov(samples: Sequence[int]) -> float:
    return 10 * math.log10(sum(s * s for s in samples) / len(samples) / 2**30)


async def packets(call: Call, count: int) -> None:
    """Waits for so many more packets of what the call's own side sends."""
    until = call.stats().tx_packets + count
    async with asyncio.timeout(PATIENCE_S):
        while call.stats().tx_packets < until:  # noqa: ASYNC110  counters tell nobody
            await asyncio.sleep(0.02)


def tone(folder: Path) -> Path:
    """A file in stereo and of another rate, with a tone at -10.3 dBov."""
    mono = memoryview(sine(1000, 1.0, rate=24_000, amplitude=14_142)).cast("h").tolist()
    path = folder / "tone.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, 24_000, 0, "NONE", ""))
        both = b"".join(s.to_bytes(2, "little", signed=True) * 2 for s in mono)
        file.writeframes(both)
    return path


async def test_noise_from_the_start_then_a_file_then_nothing(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    agent = await start_engine(background="noise", background_level_db=6.0)
    pair = Pair(agent, await start_engine(recording_dir=tmp_path, vad=False))
    out, into = await pair.connect()
    await packets(out, 60)
    out.background(Background(str(tone(tmp_path))))
    await packets(out, 80)
    out.background(None)
    await packets(out, 40)
    assert out.stats().tx_overs == 0
    out.hangup()
    await soon(collect(into))
    with pytest.raises(CallGone):
        out.background(None)
    assert into.recording is not None
    sound = heard(into.recording)
    loud = [n for n, s in enumerate(sound) if abs(s) > 10_000]
    # Noise of -50 dBov, 6 dB louder as told, before the file's fade began.
    assert dbov(sound[loud[0] - 8000 : loud[0] - 4800]) == pytest.approx(-44, abs=1.5)
    assert dbov(sound[loud[0] + 2400 : loud[0] + 5600]) == pytest.approx(-4.3, abs=0.5)
    assert max(map(abs, sound[-800:])) <= 8, "it has faded out"


async def test_the_agent_is_louder_as_told_and_what_does_not_fit_is_counted(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    agent = await start_engine(voice_level_db=12.0)
    pair = Pair(agent, await start_engine(recording_dir=tmp_path, vad=False))
    out, into = await pair.connect()
    out.play(sine(500, 0.5, amplitude=6000), 8000, 1)
    out.play(sine(500, 0.5, amplitude=20_000), 8000, 1)
    out.finish(1)
    await packets(out, 70)
    assert 1000 < out.stats().tx_overs < 4000
    assert agent.stats().tx_overs == out.stats().tx_overs
    out.hangup()
    await soon(collect(into))
    assert into.recording is not None
    sound = heard(into.recording)
    start = next(n for n, s in enumerate(sound) if abs(s) > 500)
    assert max(sound[start : start + 3600]) == pytest.approx(6000 * 3.98, rel=0.04)


def test_what_is_no_background_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(b"RIFF\0\0\0\0WAVE")
    with pytest.raises(ConfigError, match="x\\.wav: no audio") as caught:
        Background(str(path))
    assert caught.value.field == "background"
    assert Background("noise").name == "noise"
