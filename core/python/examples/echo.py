#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers every call and says back what it hears, or plays a tone or a WAV file.

    python examples/echo.py --sip-port 5060 --play tone --record /tmp/wavs --stats-json stats.json

Ctrl-C or SIGTERM hangs up all calls, closes the recordings and prints counters.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import math
import signal
import struct
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

from voicecore import (
    Audio,
    Call,
    CallEnded,
    Engine,
    EngineConfig,
    PlayoutFull,
    SpeechEnded,
    SpeechStarted,
    VoicecoreError,
)

log = logging.getLogger("echo")

# Audio is queued this far ahead, s; a call that ends throws the rest away.
AHEAD_S = 4.0


def tone(rate: int = 8000, hz: int = 400, seconds: float = 1.0) -> bytes:
    """A tone with whole periods, so that it can be repeated without a click."""
    step = 2 * math.pi * hz / rate
    samples = (int(9000 * math.sin(i * step)) for i in range(int(rate * seconds)))
    return b"".join(struct.pack("<h", s) for s in samples)


def read_wav(path: Path) -> tuple[bytes, int]:
    """PCM and rate of a mono 16-bit WAV file."""
    with wave.open(str(path), "rb") as wav:
        if (wav.getnchannels(), wav.getsampwidth()) != (1, 2):
            raise SystemExit(f"{path}: mono 16 bit is needed; convert it with sox or ffmpeg")
        return wav.readframes(wav.getnframes()), wav.getframerate()


async def keep_playing(call: Call, pcm: bytes, rate: int) -> None:
    """Repeats ``pcm`` until cancelled."""
    loop = asyncio.get_running_loop()
    ahead_until = loop.time()
    while True:
        while ahead_until < loop.time() + AHEAD_S:
            call.play(pcm, rate, turn_id=1)
            ahead_until += len(pcm) / 2 / rate
        await asyncio.sleep(AHEAD_S / 4)


async def serve(call: Call, source: tuple[bytes, int] | None, ended: Callable[..., None]) -> None:
    """One call from its INVITE to its end."""
    player: asyncio.Task[None] | None = None
    turn = 0
    try:
        await call.answer()
        if source is not None:
            player = asyncio.create_task(keep_playing(call, *source))
        async for event in call.events():
            match event:
                case SpeechStarted() if source is None:
                    turn += 1
                case Audio(pcm=pcm) if source is None:
                    with contextlib.suppress(PlayoutFull):
                        call.play(pcm, call.rate, turn)
                case SpeechEnded() if source is None:
                    call.finish(turn)
                case CallEnded():
                    ended(call, event)
                case _:
                    pass
    except VoicecoreError as error:
        log.warning("call %d: %s (%s)", call.id, error, error.code)
        call.hangup()
    finally:
        if player is not None:
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Serves until SIGINT or SIGTERM; returns the counters."""
    source = None
    if options.play == "tone":
        source = (tone(), 8000)
    elif options.play is not None:
        source = read_wav(Path(options.play))
    config = EngineConfig(
        bind=options.bind,
        sip_port=options.sip_port,
        max_calls=options.max_calls,
        rtp_ports=(options.rtp_ports[0], options.rtp_ports[1]),
        recording_dir=options.record,
        media_cores=options.media_core or (),
        media_priority=options.media_priority,
    )
    totals: dict[str, Any] = {"calls_ended": 0, "statuses": {}, "recordings": []}
    sums: dict[str, int] = {}

    def ended(call: Call, event: CallEnded) -> None:
        totals["calls_ended"] += 1
        status = str(event.status)
        totals["statuses"][status] = totals["statuses"].get(status, 0) + 1
        if call.recording is not None:
            totals["recordings"].append(call.recording)
        for name, value in event.stats.as_dict().items():
            if isinstance(value, int) and name != "rate":
                sums[name] = sums.get(name, 0) + value

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopping.set)
    tasks: set[asyncio.Task[None]] = set()
    engine = Engine(config)

    async def accept() -> None:
        async for call in engine.incoming():
            task = asyncio.create_task(serve(call, source, ended))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    await engine.start()
    print(f"listening on {engine.sip_address[0]}:{engine.sip_address[1]}", flush=True)
    acceptor = asyncio.create_task(accept())
    try:
        await stopping.wait()
    finally:
        await engine.stop()
        await acceptor
        await asyncio.gather(*tasks, return_exceptions=True)
    return {"engine": engine.stats().as_dict(), "calls": sums, **totals}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--sip-port", type=int, default=5060, help="0 takes a free one")
    parser.add_argument("--rtp-ports", type=int, nargs=2, default=(16384, 32767))
    parser.add_argument("--max-calls", type=int, default=200)
    parser.add_argument("--play", metavar="FILE|tone", help="instead of the echo")
    parser.add_argument("--record", metavar="DIR")
    parser.add_argument("--stats-json", metavar="FILE")
    parser.add_argument("--media-core", type=int, action="append")
    parser.add_argument("--media-priority", type=int)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.WARNING)
    try:
        stats = asyncio.run(run(options))
    except VoicecoreError as error:
        print(f"{error} ({error.code})", file=sys.stderr)
        return 1
    text = json.dumps(stats, indent=2)
    print(text)
    if options.stats_json:
        Path(options.stats_json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
