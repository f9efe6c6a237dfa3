# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's CPUs and the kernel's lists of them (``0-1,3``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SYS = "sys/devices/system/cpu"


def parse(text: str, last: int | None = None) -> frozenset[int]:
    """Read a CPU list; ``N`` is ``last`` (kernel-parameters.rst, "cpu lists"). Raises ValueError.

    A range that ends before it begins is an error to the kernel as well; it then ignores the whole list.
    """
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.strip().split(","))):
        if last is not None:
            part = part.replace("N", str(last))
        low, dash, high = part.partition("-")
        span = range(int(low), int(high) + 1) if dash else (int(low),)
        if not span:
            return frozenset()
        found.update(span)
    return frozenset(found)


def show(cpus: Iterable[int]) -> str:
    """Write a CPU list, shortest form; empty for none."""
    out: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(set(cpus)), -1]:
        if run and cpu != run[-1] + 1:
            out.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(cpu)
    return ",".join(out)


@dataclass(frozen=True, slots=True)
class Topology:
    """``online`` CPUs, the highest number the kernel counts to, and who shares a physical core."""

    online: frozenset[int]
    last: int
    siblings: dict[int, frozenset[int]] = field(default_factory=dict)

    def others_of(self, cpu: int) -> frozenset[int]:
        """The CPUs that share a physical core with ``cpu``."""
        return self.siblings.get(cpu, frozenset()) & self.online - {cpu}


def read(root: Path) -> Topology:
    """From /sys. Raises OSError where it is not mounted."""
    folder = root / SYS
    online = parse((folder / "online").read_text())
    possible = _list(folder / "possible") or online
    siblings = {cpu: _list(folder / f"cpu{cpu}/topology/thread_siblings_list") for cpu in online}
    return Topology(online, max(possible), siblings)


def _list(path: Path) -> frozenset[int]:
    try:
        return parse(path.read_text())
    except (OSError, ValueError):
        return frozenset()
