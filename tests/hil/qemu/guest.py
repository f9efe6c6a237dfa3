# SPDX-License-Identifier: GPL-3.0-or-later
"""The box seen from inside: commands over SSH, and /proc as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD, include/linux/sched.h
FIFO = 1  # SCHED_FIFO, sched(7)
_COMMAND_S = 30.0


class Runner(Protocol):
    """What is needed of labgrid's command protocol."""

    def run(self, command: str, *, timeout: float) -> tuple[list[str], list[str], int]:
        """Output, error output and exit status."""
        ...


class Guest:
    """Runs commands as root."""

    def __init__(self, runner: Runner, patience: float = 1.0) -> None:
        self._runner = runner
        self._patience = patience

    def run(self, command: str, timeout_s: float = _COMMAND_S) -> str:
        """Output of a command that has to succeed."""
        out, err, status = self._runner.run(command, timeout=timeout_s * self._patience)
        said = "\n".join([*out, *err])
        assert status == 0, f"`{command}` ended with {status} on the box\n{said}"
        return "\n".join(out)

    def say(self, command: str, timeout_s: float = _COMMAND_S) -> str:
        """Output of a command, whatever its exit status."""
        return "\n".join(self._runner.run(command, timeout=timeout_s * self._patience)[0])

    def fails(self, command: str) -> str:
        """What a command said that has to fail."""
        out, err, status = self._runner.run(command, timeout=_COMMAND_S * self._patience)
        said = "\n".join([*out, *err])
        assert status != 0, f"`{command}` succeeded on the box\n{said}"
        return said

    def json(self, command: str, timeout_s: float = _COMMAND_S) -> Any:
        """A command's JSON, whatever its exit status."""
        said = self.say(command, timeout_s)
        try:
            return json.loads(said)
        except ValueError:
            raise AssertionError(f"`{command}` printed no JSON on the box\n{said}") from None

    def command_line(self) -> dict[str, str]:
        """The kernel's, by name; a word without a value has an empty one."""
        words = self.run("cat /proc/cmdline").split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def isolated(self) -> frozenset[int]:
        """Cores that the kernel keeps everything off that does not ask for them."""
        return cores(self.run("cat /sys/devices/system/cpu/isolated"))

    def agent(self) -> int:
        """Process of the agent."""
        pid = int(self.run("systemctl show --property=MainPID --value voice-edge.service"))
        assert pid > 0, "the agent does not run"
        return pid

    def threads(self) -> list[Thread]:
        """Every thread of the box."""
        stats = self.say("cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null")
        allowed = self.say(
            "grep -H ^Cpus_allowed_list: /proc/[0-9]*/task/[0-9]*/status 2>/dev/null"
        )
        return threads(stats.splitlines(), allowed.splitlines())

    def boot_counters(self) -> dict[str, str]:
        """GRUB's environment as GRUB's own tool reads it."""
        lines = self.run("grub-editenv /boot/efi/grub/grubenv list").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}


@dataclass(frozen=True)
class Thread:
    """A thread as proc_pid_stat(5) tells it; `priority` is 1 to 99, or 0 outside real time."""

    pid: int
    tid: int
    name: str
    policy: int
    priority: int
    last_core: int
    allowed: frozenset[int]
    kernel: bool

    @property
    def media(self) -> bool:
        """Whether the core runs calls' media in it."""
        return self.name.startswith("vc-media")


def threads(stats: Iterable[str], allowed: Iterable[str]) -> list[Thread]:
    """From lines of stat, and lines `/proc/<pid>/task/<tid>/status:Cpus_allowed_list:<TAB><list>`.

    A thread that ended between the two readings is left out.
    """
    places: dict[int, tuple[int, frozenset[int]]] = {}
    for line in allowed:
        found = re.match(r"/proc/(\d+)/task/(\d+)/status:Cpus_allowed_list:\s*(\S*)", line)
        if found:
            places[int(found[2])] = (int(found[1]), cores(found[3]))
    result = []
    for line in stats:
        head, _, tail = line.rpartition(")")  # the name before may hold anything
        number, _, name = head.partition(" (")
        fields = tail.split()  # from the third field on
        if not number.isdigit() or int(number) not in places or len(fields) < 39:
            continue
        pid, where = places[int(number)]
        result.append(
            Thread(
                pid=pid,
                tid=int(number),
                name=name,
                policy=int(fields[38]),
                priority=int(fields[37]),
                last_core=int(fields[36]),
                allowed=where,
                kernel=bool(int(fields[6]) & KERNEL_THREAD),
            )
        )
    return result


def cores(text: str) -> frozenset[int]:
    """The kernel's list format: `0-2,5` → 0, 1, 2, 5."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
