# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent on voicecore without models, for the benchmarks: it answers every call, hears its caller and speaks.

    python -m tools.bench.listener --calls N --pcm FILE [--priority P]

Prints `ready PORT`. On stdin `stats` prints its counters; `gather SECONDS` takes events in its own loop for so long,
every 20 ms, and prints how long each drain took; the end of stdin ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvloop

from voicecore import Audio, Call, Engine, EngineConfig, SpeechStarted, VoicecoreError

CHUNK_S = 0.2
CHUNK = int(CHUNK_S * 8000) * 2


class Agent:
    """All calls of one engine."""

    def __init__(self, engine: Engine, voice: bytes) -> None:
        self._engine = engine
        self._voice = voice
        self._tasks: set[asyncio.Task[None]] = set()
        self.audio = self.starts = self.calls = 0

    async def run(self) -> None:
        async for call in self._engine.incoming():
            self._start(self._answer(call))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, call: Call) -> None:
        await call.answer()
        self.calls += 1
        self._start(self._speak(call, self.calls * 31 * CHUNK))
        async for event in call.events():
            if isinstance(event, Audio):
                self.audio += 1
            elif isinstance(event, SpeechStarted):
                self.starts += 1

    async def _speak(self, call: Call, at: int) -> None:
        """As a speech server's stream would come: a chunk is always in hand while the next one comes."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        for chunk in range(1_000_000):
            begin = (at + chunk * CHUNK) % (len(self._voice) - CHUNK)
            try:
                call.play(self._voice[begin : begin + CHUNK], 8000, 1)
            except VoicecoreError:
                return  # the call has ended
            if chunk > 0:
                due += CHUNK_S
                await asyncio.sleep(due - loop.time())

    def stats(self) -> dict[str, Any]:
        media = self._engine.stats()
        return {
            "main_ns": time.thread_time_ns(),
            "audio": self.audio,
            "starts": self.starts,
            **{name: getattr(media, name) for name in ("rx_packets", "rx_lost", "tx_packets", "events_dropped")},
        }  # fmt: skip

    def gather(self, seconds: float) -> dict[str, Any]:
        """Blocks the loop: batches of what all calls told in 20 ms."""
        drain = self._engine._native.drain
        found = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            begin = time.perf_counter_ns()
            _, events = drain()
            took = time.perf_counter_ns() - begin
            found.append((len(events), took))
            del events
        sizes = [size for size, _ in found]
        near = [took * 200 / size for size, took in found if 180 <= size <= 220]
        return {
            "batches": len(near),
            "events": statistics.median(sizes),
            "batch_200_us": statistics.median(near) / 1000 if near else None,
        }


async def serve(options: argparse.Namespace) -> None:
    config = EngineConfig(
        bind="127.0.0.1",
        sip_port=0,
        tcp=False,
        codecs=("PCMA",),
        max_calls=options.calls,
        media_priority=options.priority,
    )
    loop = asyncio.get_running_loop()
    asked: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(asked.put_nowait, line)
        loop.call_soon_threadsafe(asked.put_nowait, "")

    async with Engine(config) as engine:
        agent = Agent(engine, options.pcm.read_bytes())
        running = asyncio.create_task(agent.run())
        threading.Thread(target=read, daemon=True).start()
        gc.freeze()
        print(f"ready {engine.sip_address[1]}", flush=True)
        while words := (await asked.get()).split():
            if words[0] == "gather":
                print(json.dumps(agent.gather(float(words[1]))), flush=True)
            else:
                print(json.dumps(agent.stats()), flush=True)
        running.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--pcm", type=Path, required=True)
    parser.add_argument("--priority", type=int)
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
