# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call's audio leaves behind in Python: nothing."""

from __future__ import annotations

import asyncio
import tracemalloc

import voicecore

LEAST = 40
"""Events with audio: two seconds of speech bring a hundred."""


def _held() -> int:
    statistics = tracemalloc.take_snapshot().statistics("filename")
    return sum(one.count for one in statistics if "voicecore" in one.traceback[0].filename)


def test_events_with_audio_leave_no_objects(speech: bytes) -> None:
    async def scenario() -> tuple[int, int]:
        config = voicecore.EngineConfig(
            bind="127.0.0.1", sip_port=0, max_calls=4, rtp_ports=(42400, 42499)
        )
        async with voicecore.Engine(config) as engine:
            host, port = engine.sip_address
            dialling = asyncio.create_task(engine.dial(f"sip:x@{host}:{port}"))
            call = await anext(aiter(engine.incoming()))
            await call.answer()
            caller = await dialling
            heard = 0
            tracemalloc.start()
            before = _held()
            caller.play(speech, 8000, 1)
            caller.finish(1)
            async for event in call.events():
                heard += isinstance(event, voicecore.Audio)
                if isinstance(event, voicecore.SpeechEnded):
                    break
            del event
            caller.hangup()
            await asyncio.sleep(0.2)
            left = _held() - before
            tracemalloc.stop()
            return heard, left

    heard, left = asyncio.run(scenario())
    assert heard >= LEAST
    # Two objects for each event were left once.
    assert left < heard, f"{left} objects are left of {heard} events with audio"
