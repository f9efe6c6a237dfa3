# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls between two engines of one process."""

from __future__ import annotations

import asyncio
import logging
import wave
from pathlib import Path

import pytest

from loopback import Pair, StartEngine, collect, next_of, sine, soon
from voicecore import (
    CallEnded,
    CallGone,
    PlayoutFinished,
    PlayoutFull,
    PlayoutStarted,
    SignallingError,
)

NUMBER = "4930123456"


async def test_the_caller_hangs_up(pair: Pair) -> None:
    out, into = await pair.connect()
    assert (out.direction, into.direction) == ("out", "in")
    assert into.source.startswith("127.0.0.1:")
    assert into.sip_call_id
    assert into.dialled.user == "100"
    out.hangup()
    here, there = await soon(collect(out)), await soon(collect(into))
    assert isinstance(here[-1], CallEnded)
    assert isinstance(there[-1], CallEnded)
    assert (here[-1].by_remote, there[-1].by_remote) == (False, True)
    assert there[-1].status == 200
    out.hangup()  # idempotent
    with pytest.raises(CallGone) as gone:
        out.play(b"\0\0", 8000, 1)
    assert gone.value.code == "call.gone"


async def test_the_callee_hangs_up(pair: Pair) -> None:
    out, into = await pair.connect()
    into.hangup()
    end = await soon(next_of(out, CallEnded))
    assert end.by_remote
    assert end.stats.codec == "PCMA"
    assert out.stats() == end.stats


async def test_over_ipv6(start_engine: StartEngine) -> None:
    pair = Pair(await start_engine(bind="::1"), await start_engine(bind="::1"))
    out, into = await pair.connect()
    assert into.source.startswith("[::1]:")
    assert into.dialled.host == "::1"
    into.hangup()
    assert (await soon(next_of(out, CallEnded))).by_remote


async def test_busy(pair: Pair) -> None:
    dialling = asyncio.create_task(pair.caller.dial(pair.uri()))
    call = await pair.next_call()
    call.reject(486, retry_after=3)
    with pytest.raises(SignallingError) as refused:
        await soon(dialling)
    assert (refused.value.status, refused.value.code) == (486, "sip.call_failed")
    end = (await soon(collect(call)))[-1]
    assert isinstance(end, CallEnded)
    assert end.status == 486
    with pytest.raises(CallGone):
        await soon(call.answer())


async def test_cancel_while_ringing(pair: Pair) -> None:
    dialling = asyncio.create_task(pair.caller.dial(pair.uri()))
    call = await pair.next_call()
    call.ring()
    await asyncio.sleep(0.1)
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    end = (await soon(collect(call)))[-1]
    assert isinstance(end, CallEnded)
    assert (end.status, end.by_remote) == (487, True)
    with pytest.raises(CallGone):
        await soon(call.answer())


async def test_not_answered_in_time(pair: Pair) -> None:
    dialling = asyncio.create_task(pair.caller.dial(pair.uri(), timeout_s=0.3))
    call = await pair.next_call()
    with pytest.raises(SignallingError) as late:
        await soon(dialling)
    assert (late.value.code, late.value.status) == ("sip.dial_timeout", 408)
    await soon(collect(call))


async def test_a_uri_that_is_none(pair: Pair) -> None:
    with pytest.raises(SignallingError) as bad:
        await soon(pair.caller.dial("nobody"))
    assert bad.value.code == "sip.bad_uri"


async def test_what_is_played_is_sent_to_the_sample_and_recorded_on_the_other_side(
    pair: Pair,
) -> None:
    out, into = await pair.connect()
    pcm = sine(400, 0.5)
    # Cut in the middle of a sample: the odd byte belongs to the next chunk.
    out.play(pcm[:1001], 8000, 7)
    out.play(memoryview(pcm)[1001:], 8000, 7)
    out.finish(7)
    started = await soon(next_of(out, PlayoutStarted))
    finished = await soon(next_of(out, PlayoutFinished))
    assert (started.turn_id, finished.turn_id) == (7, 7)
    assert (finished.samples, finished.interrupted) == (4000, False)
    assert finished.at_ns - started.at_ns == pytest.approx(0.5e9, abs=0.021e9)
    await asyncio.sleep(0.3)  # the far end's jitter buffer
    out.hangup()
    await soon(collect(out))
    end = (await soon(collect(into)))[-1]
    assert isinstance(end, CallEnded)
    assert end.stats.rx_packets > 20
    assert (end.stats.rx_malformed, end.stats.tx_errors) == (0, 0)
    assert into.recording is not None
    assert out.recording is not None
    far, near = channels(Path(into.recording))
    assert loud_seconds(far) == pytest.approx(0.5, abs=0.08)
    assert loud_seconds(near) == 0
    assert loud_seconds(channels(Path(out.recording))[1]) == pytest.approx(0.5, abs=0.03)


async def test_clear_stops_within_two_ticks(pair: Pair) -> None:
    out, _ = await pair.connect()
    out.play(sine(400, 5.0), 8000, 1)
    out.play(sine(400, 5.0), 8000, 2)
    await soon(next_of(out, PlayoutStarted))
    await asyncio.sleep(0.1)
    loop = asyncio.get_running_loop()
    cleared_ns = int(loop.time() * 1e9)
    out.clear()
    cut = [await soon(next_of(out, PlayoutFinished)) for _ in range(2)]
    assert [(end.turn_id, end.interrupted) for end in cut] == [(1, True), (2, True)]
    assert 160 <= cut[0].samples <= 3200
    assert cut[1].samples == 0
    assert cut[0].at_ns <= cleared_ns + 60_000_000
    sent = out.stats().tx_packets
    out.play(sine(400, 0.2), 8000, 1)  # of a cleared turn: ignored
    out.finish(1)
    out.play(sine(400, 0.1, rate=16000), 16000, 3)
    out.finish(3)
    next_turn = await soon(next_of(out, PlayoutFinished))
    assert (next_turn.turn_id, next_turn.interrupted) == (3, False)
    assert next_turn.samples == 800
    assert out.stats().tx_packets > sent


async def test_the_play_out_queue_is_bounded(pair: Pair) -> None:
    out, _ = await pair.connect()
    minute = bytes(8000 * 2 * 60)
    out.play(minute, 8000, 1)
    out.play(minute[: -8000 * 4], 8000, 1)
    with pytest.raises(PlayoutFull) as full:
        out.play(minute, 8000, 1)
    assert full.value.code == "media.playout_full"
    out.clear(1)
    finished = await soon(next_of(out, PlayoutFinished))
    assert finished.interrupted


async def test_numbers_reach_no_log(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    dialling = asyncio.create_task(pair.caller.dial(pair.uri(NUMBER)))
    call = await pair.next_call()
    assert call.dialled.user == NUMBER
    call.reject(404)
    with pytest.raises(SignallingError) as refused:
        await soon(dialling)
    out, into = await pair.connect(NUMBER)
    printed = f"{out!r} {into!r} {into.dialled} {refused.value} {into.recording}"
    out.hangup()
    printed += repr(await soon(collect(into)))
    assert NUMBER not in printed
    assert NUMBER not in caplog.text
    assert "…@127.0.0.1" in printed


def channels(path: Path) -> tuple[list[int], list[int]]:
    """Left and right samples of a recording; its header must be right."""
    with wave.open(str(path), "rb") as wav:
        assert (wav.getnchannels(), wav.getsampwidth(), wav.getframerate()) == (2, 2, 8000)
        frames = wav.getnframes()
        data = memoryview(wav.readframes(frames)).cast("h")
    assert len(data) == 2 * frames
    return list(data[::2]), list(data[1::2])


def loud_seconds(samples: list[int]) -> float:
    """How long a channel is loud."""
    blocks = [samples[i : i + 80] for i in range(0, len(samples), 80)]
    return sum(0.01 for block in blocks if max(map(abs, block)) > 4000)
