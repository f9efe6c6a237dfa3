# SPDX-License-Identifier: GPL-3.0-or-later
"""The two sides of the transport benchmark as processes: one is measured on core 0, one generates on core 1.

What is measured is read from the kernel, so both kinds of measured program are measured alike: CPU time of the whole
process (user and system, all threads) and its proportional memory.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tools.step import Failed

MEASURED, GENERATOR = 0, 1
"""The cores they are pinned to."""
PRIORITY = 60


def may_real_time() -> bool:
    """Whether SCHED_FIFO is allowed here: other work on the machine then does not decide who is late."""
    child = os.fork()
    if child == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


class Program:
    """A child that says things on stdout and is told things on stdin."""

    def __init__(
        self, command: Sequence[str], core: int | None, priority: int | None = None
    ) -> None:
        def ready() -> None:
            if core is not None:
                os.sched_setaffinity(0, {core})
            if priority is not None:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))

        self._name = " ".join(command[:2])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            # Between fork and exec nothing but two system calls.
            preexec_fn=ready,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next thing it says; Failed when it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self._name} ended with {self._process.wait(5)}; see above")
        return line.strip()

    def ask(self, word: str) -> dict[str, Any]:
        """Say a word, get the counters that answer it."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        answer: dict[str, Any] = json.loads(self.line())
        return answer

    def end(self, timeout_s: float = 20) -> None:
        """Close its stdin, on which it ends by itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is not None:
            self._process.send_signal(signal.SIGKILL)
        self.end()

    def cpu_ns(self) -> int:
        """CPU time of all its threads so far (clock_getcpuclockid(3): the clock of a process by its id)."""
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    def pss_kib(self) -> int:
        """Its memory, of shared pages its part."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii")
        found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Side:
    """A measured program, by the most calls it has to take."""

    name: str
    command: Callable[[int], list[str]]
    tells: bool
    """Whether it answers `stats`."""
    srtp: bool = False
    whole: bool = False
    """Whether the process has real-time priority altogether, rather than by its own means."""

    def start(self, calls: int) -> tuple[Program, int]:
        """The program and its SIP port."""
        program = Program(self.command(calls), MEASURED, PRIORITY if self.whole else None)
        word, port = program.line().split()
        assert word == "ready"
        return program, int(port)


@dataclass(frozen=True)
class Run:
    """What one run found, within its window."""

    side: str
    calls: int
    seconds: float
    cpu_us: float  # a call and frame that the measured side sent
    offered: int  # frames sent to it
    heard: int  # frames that came from it
    lost: int  # of those that it sent, by their sequence numbers
    gap_ms: float  # the longest between two frames of a call
    pss_kib: int
    own: dict[str, Any]  # its own counters, since its start; begin_NAME as the window began
    whole: dict[str, Any]  # the generator's counters of the whole run


def measure(
    side: Side,
    generator: Path,
    pcm: Path,
    calls: int,
    seconds: float,
    *,
    room: int,
    rate: int,
    settle_s: float = 2.0,
) -> Run:
    """One run: all calls up, a moment to settle, a window, all calls ended."""
    real_time = PRIORITY if may_real_time() else None
    program, port = side.start(room)
    with program:
        words = ["generate", "--target", f"127.0.0.1:{port}", "--calls", str(calls)]
        words += ["--pcm", str(pcm), "--rate", str(rate), "--srtp", str(int(side.srtp))]
        with Program([str(generator), *words], GENERATOR, real_time) as other:
            said = other.line().split()
            if int(said[1]) != calls:
                raise Failed(f"{side.name}: {said[1]} of {calls} calls were answered; see above")
            time.sleep(settle_s)
            begun = program.ask("stats") if side.tells else {}
            before, cpu = other.ask("mark"), program.cpu_ns()
            time.sleep(seconds)
            after, used = other.ask("mark"), program.cpu_ns() - cpu
            own = program.ask("stats") if side.tells else {}
            own |= {f"begin_{name}": value for name, value in begun.items()}
            pss = program.pss_kib()
            whole = other.ask("stop")
            if side.tells:
                time.sleep(1.0)
                own |= {f"end_{name}": value for name, value in program.ask("stats").items()}
    heard = after["received"] - before["received"]
    if heard == 0:
        raise Failed(f"{side.name}: nothing was heard of {calls} calls")
    return Run(
        side.name,
        calls,
        seconds,
        used / 1000 / heard,
        after["sent"] - before["sent"],
        heard,
        after["lost"] - before["lost"],
        after["gap_ms"],
        pss,
        own,
        whole,
    )


def call_rate(side: Side, generator: Path, calls: int, at_once: int) -> tuple[float, float]:
    """Calls set up and ended a second, and CPU of the measured side for each, µs."""
    program, port = side.start(1000)
    with program:
        cpu = program.cpu_ns()
        words = ["setup", "--target", f"127.0.0.1:{port}", "--calls", str(calls)]
        with Program([str(generator), *words, "--at-once", str(at_once)], GENERATOR) as other:
            found = json.loads(other.line())
        used = program.cpu_ns() - cpu
    if found["failed"]:
        raise Failed(f"{side.name}: {found['failed']} of {calls} short calls failed")
    return calls / found["seconds"], used / 1000 / calls
