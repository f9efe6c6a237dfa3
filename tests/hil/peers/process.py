# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes with their output in files, and what is left of their process trees."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Process:
    """One child in a session of its own; its output goes to `NAME.out` and `NAME.err` under `directory`."""

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        directory: Path,
        *,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.stdout_path = directory / f"{name}.out"
        self.stderr_path = directory / f"{name}.err"
        self.args = list(args)
        with self.stdout_path.open("wb") as out, self.stderr_path.open("wb") as err:
            self._child = subprocess.Popen(
                self.args,
                cwd=directory,
                env=None if env is None else dict(env),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.poll()

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def stdout(self) -> str:
        return self.stdout_path.read_text(encoding="utf-8", errors="replace")

    def stderr(self) -> str:
        return self.stderr_path.read_text(encoding="utf-8", errors="replace")

    def write(self, line: str) -> None:
        """One line to the child's standard input."""
        assert self._child.stdin is not None, f"{self.name} was started without standard input"
        self._child.stdin.write(line.encode() + b"\n")
        self._child.stdin.flush()

    def wait(self, timeout_s: float) -> int:
        """Exit status; AssertionError with the end of its output when it runs on."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} (pid {self.pid}) still runs after {timeout_s} s\n{self.tail()}"
            ) from None

    def tail(self, lines: int = 30) -> str:
        parts = []
        for label, text in (("out", self.stdout()), ("err", self.stderr())):
            last = "\n".join(text.splitlines()[-lines:])
            parts.append(f"--- {self.name}.{label}\n{last}")
        return "\n".join(parts)

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            self._child.send_signal(number)

    def signal_group(self, number: signal.Signals) -> None:
        """As a terminal does on Ctrl-C: to every process of the group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def stop(self, timeout_s: float = 5.0, first: signal.Signals = signal.SIGTERM) -> int:
        """Ask, wait, then kill this child (and its own group only)."""
        self.send(first)
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal_group(signal.SIGKILL)
            return self._child.wait(5)
        finally:
            if self._child.stdin is not None:
                self._child.stdin.close()


def start_time(pid: int) -> int | None:
    """Kernel start time of `pid` in clock ticks: with the pid it names a process for good. None when gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def tree(pid: int) -> dict[int, int]:
    """`pid` and all its living descendants: pid to start time."""
    found: dict[int, int] = {}
    queue = [pid]
    while queue:
        current = queue.pop()
        began = start_time(current)
        if began is None:
            continue
        found[current] = began
        try:
            tasks = list(Path(f"/proc/{current}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                children = (task / "children").read_text(encoding="ascii").split()
            except OSError:
                continue
            queue.extend(int(child) for child in children)
    return found


def survivors(recorded: Mapping[int, int]) -> list[str]:
    """Those of a recorded tree that still run, with their command lines."""
    left = []
    for pid, began in recorded.items():
        if start_time(pid) == began:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            left.append(f"{pid}: {command.strip()}")
    return left


def descriptors(pid: int) -> list[str]:
    """What `pid` has open."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            continue
    return sorted(found)


def udp_ports_of(pid: int) -> set[int]:
    """UDP ports bound by sockets that `pid` has open."""
    inodes = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(int(target[8:-1]))
    except OSError:
        return set()
    ports = set()
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            field = line.split()
            if int(field[9]) in inodes:
                ports.add(int(field[1].rpartition(":")[2], 16))
    return ports


def eventually(
    what: str, check: Callable[[], object], timeout_s: float, every_s: float = 0.02
) -> object:
    """First true result of `check` within the time; AssertionError naming `what` otherwise."""
    end = time.monotonic() + timeout_s
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(every_s)
