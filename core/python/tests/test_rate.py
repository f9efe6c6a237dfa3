# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of 16 kHz: G.722 between two engines."""

from __future__ import annotations

import asyncio
import math
import wave
from collections.abc import Sequence
from pathlib import Path

import pytest

from loopback import Pair, StartEngine, collect, next_of, sine, soon
from voicecore import CallEnded, PlayoutFinished, PlayoutStarted


def read(path: str) -> tuple[int, list[list[int]]]:
    """Rate and channels of a WAV."""
    with wave.open(path) as file:
        rate, data = file.getframerate(), file.readframes(file.getnframes())
    samples = memoryview(data).cast("h")
    return rate, [samples[0::2].tolist(), samples[1::2].tolist()]


def level(samples: Sequence[int], hz: float, rate: int) -> float:
    """Amplitude at one frequency."""
    step = 2 * math.pi * hz / rate
    real = sum(s * math.cos(step * n) for n, s in enumerate(samples))
    imaginary = sum(s * math.sin(step * n) for n, s in enumerate(samples))
    return 2 * math.hypot(real, imaginary) / max(len(samples), 1)


async def wide_pair(start_engine: StartEngine, tmp_path: Path) -> Pair:
    settings = {"recording_dir": tmp_path, "codecs": ("G722", "PCMA", "PCMU")}
    return Pair(await start_engine(**settings), await start_engine(**settings))


async def test_a_call_on_g722_carries_what_lies_above_4_khz(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    pair = await wide_pair(start_engine, tmp_path)
    dialling = asyncio.create_task(pair.caller.dial(pair.uri()))
    into = await pair.next_call()
    assert into.rate == 8000, "nothing is agreed on yet"
    await soon(into.answer())
    out = await soon(dialling)
    assert (out.rate, into.rate, out.stats().codec) == (16_000, 16_000, "G722")
    # 24 kHz, as many voices have it: what fits below 8 kHz stays.
    out.play(sine(5500, 0.5, rate=24_000), 24_000, 1)
    out.finish(1)
    started = await soon(next_of(out, PlayoutStarted))
    finished = await soon(next_of(out, PlayoutFinished))
    assert finished.samples == 8000, "counted at the call's rate"
    assert finished.at_ns - started.at_ns == pytest.approx(0.5e9, abs=0.021e9)
    await asyncio.sleep(0.3)
    out.hangup()
    end = (await soon(collect(into)))[-1]
    assert isinstance(end, CallEnded)
    assert (end.stats.rate, into.rate) == (16_000, 16_000), "also after its end"
    assert into.recording is not None
    rate, (far, _) = read(into.recording)
    assert rate == 16_000
    loud = [n for n, sample in enumerate(far) if abs(sample) > 1000]
    tone = far[loud[0] + 800 : loud[0] + 6400]
    assert level(tone, 5500, rate) > 6000


async def test_the_rate_stays_when_the_codec_changes(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    pair = await wide_pair(start_engine, tmp_path)
    out, into = await pair.connect()
    await soon(out.renegotiate(codecs=["PCMU"]))
    assert (out.stats().codec, out.rate, into.rate) == ("PCMU", 16_000, 16_000)
    out.play(sine(1000, 0.5, rate=16_000), 16_000, 1)
    out.finish(1)
    assert (await soon(next_of(out, PlayoutFinished))).samples == 8000
    await asyncio.sleep(0.3)
    out.hangup()
    await soon(collect(into))
    assert into.recording is not None
    rate, (far, _) = read(into.recording)
    assert rate == 16_000
    loud = [n for n, sample in enumerate(far) if abs(sample) > 1000]
    assert level(far[loud[0] + 800 : loud[0] + 6400], 1000, rate) > 6000


async def test_a_call_on_g711_has_8_khz(pair: Pair) -> None:
    out, into = await pair.connect()
    assert (out.rate, into.rate, out.stats().codec) == (8000, 8000, "PCMA")
    await asyncio.sleep(0.2)  # something to record
    out.hangup()
    await soon(collect(into))
    assert into.recording is not None
    assert read(into.recording)[0] == 8000
