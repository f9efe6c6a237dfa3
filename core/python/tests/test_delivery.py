# SPDX-License-Identifier: GPL-3.0-or-later
"""How the far end's audio is handed over."""

from __future__ import annotations

import asyncio

import pytest

from loopback import PATIENCE_S, Pair, StartEngine, soon
from voicecore import Audio, Call, CallGone, ConfigError


async def portions(call: Call, count: int) -> list[Audio]:
    """The next Audio events of a call."""
    found: list[Audio] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in call.events():
            if isinstance(event, Audio):
                found.append(event)
                if len(found) == count:
                    break
    return found


async def test_every_frame_and_a_call_that_wants_them_in_portions(
    start_engine: StartEngine,
) -> None:
    agent = await start_engine(vad=False, delivery="frames")
    out, into = await Pair(agent, await start_engine(vad=False)).connect()
    frames = await portions(out, 20)
    assert {len(event.pcm) for event in frames} == {320}
    out.listen(chunk_ms=100, echo_guard=True, noise_suppression=True)
    assert [len(event.pcm) for event in await portions(out, 30)][-5:] == [1600] * 5
    with pytest.raises(ConfigError, match=r"^chunk_ms: "):
        out.listen(chunk_ms=30)
    with pytest.raises(ConfigError, match=r"^chunk_ms: "):
        out.listen(chunk_ms=-20)
    with pytest.raises(ConfigError, match=r'^delivery: "all" is not known; '):
        out.listen(delivery="all")  # type: ignore[arg-type]
    out.hangup()
    await soon(collect_end(into))
    await soon(collect_end(out))
    with pytest.raises(CallGone):
        out.listen(delivery="speech")


async def test_asked_for_before_the_answer_it_holds_from_the_first_frame(
    start_engine: StartEngine,
) -> None:
    caller, agent = await start_engine(vad=False), await start_engine(vad=False)
    pair = Pair(caller, agent)
    dialling = asyncio.create_task(caller.dial(pair.uri()))
    incoming = await pair.next_call()
    incoming.listen(delivery="frames", chunk_ms=60)
    await soon(incoming.answer())
    out = await soon(dialling)
    assert {len(event.pcm) for event in await portions(incoming, 5)} == {960}
    out.hangup()
    await soon(collect_end(incoming))


async def collect_end(call: Call) -> None:
    """Reads a call's events to their end."""
    async for _ in call.events():
        pass
