# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call's audio leaves behind in Python: nothing."""

from __future__ import annotations

import asyncio
import tracemalloc

import voicecore

EVENTS = 100


def _held() -> int:
    statistics = tracemalloc.take_snapshot().statistics("filename")
    return sum(one.count for one in statistics if "voicecore" in one.traceback[0].filename)


async def _hear(call: voicecore.Call) -> None:
    async for event in call.events():
        del event


def test_events_with_audio_leave_no_objects() -> None:
    async def scenario() -> tuple[int, int]:
        config = voicecore.EngineConfig(
            bind="127.0.0.1",
            sip_port=0,
            max_calls=4,
            rtp_ports=(42400, 42499),
            vad_threshold=1e-6,  # everything is speech
            vad_release=1e-7,
        )
        async with voicecore.Engine(config) as engine:
            host, port = engine.sip_address
            dialling = asyncio.create_task(engine.dial(f"sip:x@{host}:{port}"))
            call = await anext(aiter(engine.incoming()))
            await call.answer()
            caller = await dialling
            rest = asyncio.create_task(_hear(caller))
            heard = 0
            tracemalloc.start()
            before = _held()
            async for event in call.events():
                heard += isinstance(event, voicecore.Audio)
                del event
                if heard >= EVENTS:
                    break
            caller.hangup()
            await rest
            async for event in call.events():
                del event
            left = _held() - before
            tracemalloc.stop()
            return heard, left

    heard, left = asyncio.run(scenario())
    # Two objects for each event were left once.
    assert left < heard, f"{left} objects are left of {heard} events with audio"
