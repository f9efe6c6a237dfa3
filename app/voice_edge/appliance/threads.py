# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads as /proc shows them: policy, priority, where they may run (proc_pid_stat(5), proc_pid_status(5))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import cpus

POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline"}
CGROUP = "sys/fs/cgroup/system.slice/voice-edge.service/cgroup.procs"


@dataclass(frozen=True, slots=True)
class Thread:
    pid: int
    tid: int
    name: str
    policy: str
    priority: int  # 1 to 99, or 0 outside the real-time policies
    allowed: frozenset[int]
    last_cpu: int
    kernel: bool

    @property
    def media(self) -> bool:
        """Whether it is a media thread of the core, which names them vc-media-<n>."""
        return self.name.startswith("vc-media")


def agent_pids(root: Path) -> tuple[int, ...]:
    """Processes of voice-edge.service."""
    try:
        return tuple(int(line) for line in (root / CGROUP).read_text().split())
    except (OSError, ValueError):
        return ()


def of_process(root: Path, pid: int) -> list[Thread]:
    """Threads that ended meanwhile are left out."""
    folder = root / f"proc/{pid}/task"
    found = []
    try:
        tasks = sorted(folder.iterdir(), key=lambda p: int(p.name))
    except (OSError, ValueError):
        return []
    for task in tasks:
        try:
            found.append(_thread(pid, task))
        except (OSError, ValueError, IndexError):
            continue
    return found


def everything(root: Path) -> Iterator[Thread]:
    """Every thread of the machine."""
    for folder in (root / "proc").iterdir():
        if folder.name.isdigit():
            yield from of_process(root, int(folder.name))


def limits(root: Path, pid: int) -> dict[str, str]:
    """Soft limits of a process by their names in /proc/<pid>/limits."""
    out: dict[str, str] = {}
    try:
        lines = (root / f"proc/{pid}/limits").read_text().splitlines()[1:]
    except OSError:
        return out
    for line in lines:
        name, rest = line[:26].strip(), line[26:].split()
        if rest:
            out[name] = rest[0]
    return out


def _thread(pid: int, task: Path) -> Thread:
    head, _, tail = (task / "stat").read_text().rpartition(")")
    # Fields from the third on; the name before may hold anything.
    fields = tail.split()
    status = (task / "status").read_text()
    allowed = next(
        line.partition(":")[2]
        for line in status.splitlines()
        if line.startswith("Cpus_allowed_list:")
    )
    return Thread(
        pid=pid,
        tid=int(task.name),
        name=head.partition("(")[2],
        policy=POLICIES.get(int(fields[38]), fields[38]),
        priority=int(fields[37]),
        allowed=cpus.parse(allowed),
        last_cpu=int(fields[36]),
        kernel=bool(int(fields[6]) & 0x0020_0000),  # PF_KTHREAD
    )
