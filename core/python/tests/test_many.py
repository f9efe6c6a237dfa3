# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty calls at once between two engines."""

from __future__ import annotations

import asyncio

import pytest

from loopback import Pair, StartEngine, collect, sine, soon
from voicecore import Call, CallEnded, PlayoutFinished, SignallingError

CALLS = 50


async def test_fifty_calls_at_once(pair: Pair) -> None:
    answered: list[Call] = []

    async def answer_all() -> None:
        async for call in pair.callee.incoming():
            answered.append(call)
            await call.answer()

    answering = asyncio.create_task(answer_all())
    outs = await soon(asyncio.gather(*(pair.caller.dial(pair.uri(str(n))) for n in range(CALLS))))
    pcm = sine(400, 0.4)
    for call in outs:
        call.play(pcm, 8000, 1)
        call.finish(1)
    assert pair.callee.stats().calls_active == CALLS
    for call in outs:
        async for event in call.events():
            if isinstance(event, PlayoutFinished):
                assert (event.samples, event.interrupted) == (3200, False)
                break
    for call in outs:
        call.hangup()
    for events in await soon(asyncio.gather(*map(collect, outs + answered))):
        end = events[-1]
        assert isinstance(end, CallEnded)
        assert (end.stats.rx_malformed, end.stats.tx_errors, end.stats.rx_foreign) == (0, 0, 0)
    assert len({call.id for call in outs + answered}) == 2 * CALLS
    stats = pair.callee.stats()
    assert (stats.calls_total, stats.calls_active, stats.events_dropped) == (CALLS, 0, 0)
    answering.cancel()


async def test_one_call_too_many_is_refused_with_503(start_engine: StartEngine) -> None:
    pair = Pair(await start_engine(), await start_engine(max_calls=1))
    out, _ = await pair.connect()
    with pytest.raises(SignallingError) as refused:
        await soon(pair.caller.dial(pair.uri()))
    assert refused.value.status == 503
    assert pair.callee.stats().sip_rejected == 1
    out.hangup()
    await soon(collect(out))
    await pair.connect()
