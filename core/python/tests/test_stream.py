# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue between one drain and one consumer, and a consumer that is slow."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from voicecore import Address, Audio, Call, CallEnded, CallStats, SpeechStarted, _core
from voicecore._stream import Stream


async def test_items_arrive_in_order_and_close_ends_after_them() -> None:
    stream: Stream[int] = Stream(10)
    assert stream.put(1)
    assert stream.put(2)
    stream.close()
    assert not stream.put(3)
    assert [item async for item in stream] == [1, 2]


async def test_a_waiting_consumer_is_woken_by_put_and_by_close() -> None:
    stream: Stream[int] = Stream(10)
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    stream.put(7)
    assert await waiting == 7
    ended = asyncio.create_task(anext(stream, None))
    await asyncio.sleep(0)
    stream.close()
    assert await ended is None


async def test_a_cancelled_consumer_loses_nothing() -> None:
    stream: Stream[int] = Stream(10)
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    stream.put(1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await anext(stream) == 1


async def test_two_consumers_are_an_error() -> None:
    stream: Stream[int] = Stream(10)
    first = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one consumer"):
        await anext(stream)
    first.cancel()


async def test_a_slow_consumer_loses_only_audio_past_the_limit_and_that_is_counted() -> None:
    native = cast(_core.Engine, None)  # not reached
    nobody = Address("")
    call = Call(native, 1, direction="in", caller=nobody, dialled=nobody)
    limit = 3000
    frame = Audio(at_ns=0, pcm=b"\0\0")
    taken = [call._hear(frame) for _ in range(limit + 5)]
    assert taken.count(False) == call.events_dropped == 5
    call._put(SpeechStarted(at_ns=1, decided_ns=2))
    call._on_ended(CallEnded(status=200, reason="OK", by_remote=True, stats=CallStats()))
    kinds: dict[Any, int] = {}
    async for event in call.events():
        kinds[type(event)] = kinds.get(type(event), 0) + 1
    assert kinds == {Audio: limit, SpeechStarted: 1, CallEnded: 1}


def test_audio_is_a_view_of_bytes_of_its_own() -> None:
    audio = Audio(at_ns=1, pcm=bytes(range(8)))
    assert isinstance(audio.pcm, memoryview)
    assert (audio.pcm.tobytes(), audio.pcm.format, audio.pcm.readonly) == (
        bytes(range(8)),
        "B",
        True,
    )
    with pytest.raises(TypeError):
        Audio(at_ns=1, pcm=cast(bytes, 5))


def test_events_print_like_dataclasses_and_without_numbers() -> None:
    assert repr(SpeechStarted(at_ns=1, decided_ns=2)) == "SpeechStarted(at_ns=1, decided_ns=2)"
    assert repr(Audio(at_ns=1, pcm=bytes(320))) == "Audio(at_ns=1, samples=160)"
    incoming = _core.IncomingCall(
        caller="sip:4930123456@h", dialled="sip:100@h", sip_call_id="x", source="127.0.0.1:5060"
    )
    assert repr(incoming) == 'IncomingCall(source="127.0.0.1:5060", …)'
