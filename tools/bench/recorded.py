# SPDX-License-Identifier: GPL-3.0-or-later
"""One side of `just bench frame`: so many calls from a recording, at their own pace, by the core or by the reference.

    python -m tools.bench.recorded core|reference --calls N --pcm FILE --seconds S

Each call says another part of FILE (16-bit samples, 8 kHz), in G.711 A-law, a frame every 20 ms, and is heard as an
agent hears it: decoded, levelled, listened to for speech, and what it says handed to the application. Prints one JSON
object: frames, and CPU time of the process, of the main thread while it has the interpreter's lock, and of the network.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.reference import g711
from core.reference.level import Gain, GainSettings
from core.reference.pool import Pool, State
from core.reference.speech import WINDOW, Caller
from voicecore import Audio, SpeechStarted, _core

RATE, FRAME, TICK_S = 8000, 160, 0.02
GAIN = GainSettings(enabled=True)
STRIDE = 997
"""Frames between the parts of the recording that two calls say."""

Found = dict[str, int]


class Application:
    """What is told of a call: counted, as its recogniser would take it."""

    def __init__(self) -> None:
        self.starts = self.chunks = self.octets = 0

    def started(self) -> None:
        self.starts += 1

    def audio(self, pcm: bytes | memoryview) -> None:
        self.chunks += 1
        self.octets += len(pcm)


Done = tuple[list[Application], int, int]
"""The applications, and of CPU time the network's, and the main thread's without the interpreter's lock; ns."""
Work = Callable[[], Done]


def core(calls: int, pcm: bytes, ticks: int) -> Work:
    """The core's media thread, and this thread drains it."""
    line = _core.Recorded(calls, pcm, ticks, gain=True)
    waiting = select.epoll()
    waiting.register(line.event_fd(), select.EPOLLIN)
    return lambda: _drain(line, waiting, calls)


def _drain(line: _core.Recorded, waiting: select.epoll, calls: int) -> Done:
    applications = [Application() for _ in range(calls)]
    line.start()
    free_ns = 0
    while line.running():
        begin = time.thread_time_ns()
        waiting.poll(TICK_S)
        free_ns += time.thread_time_ns() - begin
        for call, event in zip(*line.drain(), strict=True):
            if isinstance(event, Audio):
                applications[call].audio(event.pcm)
            elif isinstance(event, SpeechStarted):
                applications[call].started()
    return applications, line.spent()[2], free_ns + line.spent()[4]


def reference(calls: int, pcm: bytes, ticks: int) -> Work:
    """The Python path: this thread does a tick of all calls, and a pool runs the network."""
    codes = g711.encode(np.frombuffer(pcm, "<i2"), "PCMA")
    frames = codes[: len(codes) // FRAME * FRAME].reshape(-1, FRAME)
    pool = Pool(threads=len(os.sched_getaffinity(0)))
    # Its session is made with its first work.
    pool.submit(State(RATE), np.zeros(WINDOW[RATE], np.float32)).result()
    return lambda: _tick(pool, frames, calls, ticks)


def _tick(pool: Pool, frames: NDArray[np.uint8], calls: int, ticks: int) -> Done:
    applications = [Application() for _ in range(calls)]
    lines = [(Caller(RATE), State(RATE)) for _ in range(calls)]
    gains = [Gain(GAIN) for _ in range(calls)]
    before = _vad_ns()
    begin = time.monotonic()
    for tick in range(ticks):
        time.sleep(max(0.0, begin + (tick + 1) * TICK_S - time.monotonic()))
        asked: dict[int, Future[np.float32]] = {}
        heard = []
        for number, (caller, state) in enumerate(lines):
            frame = gains[number].run(
                g711.decode(frames[(number * STRIDE + tick) % len(frames)], "PCMA")
            )
            heard.append(frame)
            window = caller.hear(frame)
            if window is not None:
                asked[number] = pool.submit(state, window)
        for number, (caller, _) in enumerate(lines):
            event = None
            if number in asked:
                event = caller.judge(asked[number].result())
                if event is not None and event.started:
                    applications[number].started()
            if caller.deliver(event) is not None:
                applications[number].audio(heard[number].tobytes())
    vad_ns = _vad_ns() - before
    pool.close()
    # What sleeping and waiting take without the lock is theirs, and next to nothing.
    return applications, vad_ns, 0


SIDES: dict[str, Callable[[int, bytes, int], Work]] = {"core": core, "reference": reference}


def _vad_ns() -> int:
    """CPU time of the pool's threads (proc(5), schedstat)."""
    tasks = [thread.native_id for thread in threading.enumerate() if thread.name[:3] == "vad"]
    stats = (Path(f"/proc/self/task/{task}/schedstat").read_text() for task in tasks)
    return sum(int(text.split()[0]) for text in stats)


def measure(side: str, calls: int, pcm: bytes, seconds: float) -> Found:
    ticks = round(seconds / TICK_S)
    work = SIDES[side](calls, pcm, ticks)
    gc.collect()
    gc.freeze()
    process, main = time.process_time_ns(), time.thread_time_ns()
    applications, vad_ns, free_ns = work()
    return {
        "frames": calls * ticks,
        "process_ns": time.process_time_ns() - process,
        "main_ns": time.thread_time_ns() - main - free_ns,
        "vad_ns": vad_ns,
        "starts": sum(one.starts for one in applications),
        "octets": sum(one.octets for one in applications),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--pcm", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    found = measure(options.side, options.calls, options.pcm.read_bytes(), options.seconds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
