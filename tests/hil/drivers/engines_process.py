# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines that share one process, started and stopped while others run: the process behind the tests of chaos.

Standard input takes one JSON object a line; standard output answers each with one that has the same "op":
{"op": "start", "name": …, "config": {…}}, {"op": "stop", "name": …}, {"op": "stats", "name": …},
{"op": "freeze", "seconds": …} (the event loop does nothing for so long), {"op": "census"}, {"op": "quit"}.
Every call is answered and hears a melody; what it says is thrown away. Events of note are told in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import voicecore
from hil.drivers.core_process import plain, say
from hil.peers import audio

_AHEAD_S = 5.0  # speech queued: a loop that stands still for less leaves no silence


class Hosted:
    """One engine and its calls."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name = name
        ports = tuple(config.pop("rtp_ports"))
        self.engine = voicecore.Engine(voicecore.EngineConfig(rtp_ports=ports, **config))
        self.engine.on_stall(self._stalled)
        self.events: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def _stalled(self, stall: voicecore.ThreadStalled) -> None:
        say("stall", engine=self.name, thread=stall.thread, stuck_s=stall.stuck_s, over=stall.over)

    async def start(self) -> tuple[str, int]:
        await self.engine.start()
        self._spawn(self._incoming())
        return self.engine.sip_address

    async def stop(self) -> None:
        await self.engine.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _incoming(self) -> None:
        async for call in self.engine.incoming():
            self._spawn(self._serve(call))

    async def _serve(self, call: voicecore.Call) -> None:
        with contextlib.suppress(voicecore.VoicecoreError):
            await call.answer()
            self._spawn(self._play(call))
        async for event in call.events():
            self.events[type(event).__name__] += 1

    async def _play(self, call: voicecore.Call) -> None:
        chunk = audio.melody([500.0, 700.0], 0.5).tobytes()
        ahead, loop = 0.0, asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(voicecore.CallGone):
            while True:
                while ahead < loop.time() - began + _AHEAD_S:
                    call.play(chunk, 8000, 1)
                    ahead += 1.0
                await asyncio.sleep(0.5)


def census() -> dict[str, int]:
    """What this process holds."""
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    pss = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    return {
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "threads": len(os.listdir("/proc/self/task")),
        "memory_kib": int(pss.split()[1]),
    }


async def main() -> None:
    engines: dict[str, Hosted] = {}
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # The executor's threads come as they are needed; all of them before anything is counted.
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(4)))
    say("ready")
    while line := await reader.readline():
        order = json.loads(line)
        op, name = order["op"], order.get("name", "")
        if op == "start":
            engines[name] = Hosted(name, order["config"])
            host, port = await engines[name].start()
            say(op, name=name, host=host, port=port)
        elif op == "stop":
            began = time.monotonic()
            await engines.pop(name).stop()
            say(op, name=name, seconds=time.monotonic() - began)
        elif op == "stats":
            hosted = engines[name]
            say(op, name=name, events=dict(hosted.events), **plain(hosted.engine.stats()))
        elif op == "freeze":
            time.sleep(order["seconds"])  # noqa: ASYNC251
            say(op)
        elif op == "census":
            say(op, **census())
        elif op == "quit":
            break
    for hosted in engines.values():
        await hosted.stop()
    say("stopped")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(main())
