# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cores are for media, and how the kernel is told: policy, command line, at most one reboot."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from . import cpus, files, grubenv
from .answers import Answers
from .cpus import Topology
from .places import Places

SHARDS = 64
"""Media threads that one agent process runs at most."""
SPARE_SIBLINGS_FROM = 8
"""From this many CPUs on, the hyper-threads beside a media core are kept idle as well."""
UNISOLATED = "voice.rt=none"
"""In place of no arguments at all: GRUB's script has a default for an unset variable."""
NAMES = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")


@dataclass(frozen=True, slots=True)
class Plan:
    """``media`` cores run media threads, ``idle`` ones are their hyper-threads, the rest keeps house."""

    media: tuple[int, ...]
    idle: tuple[int, ...]
    housekeeping: tuple[int, ...]

    @property
    def isolated(self) -> frozenset[int]:
        return frozenset(self.media) | frozenset(self.idle)

    @property
    def arguments(self) -> str:
        """Words for the kernel's command line (kernel-parameters.txt)."""
        if not self.isolated:
            return UNISOLATED
        isolated, rest = cpus.show(self.isolated), cpus.show(self.housekeeping)
        return (
            f"isolcpus=managed_irq,domain,{isolated} nohz_full={isolated} "
            f"rcu_nocbs={isolated} irqaffinity={rest}"
        )


class PolicyError(Exception):
    """What was asked for cannot be had on this machine; the text names the remedy."""


def default_cores(count: int) -> int:
    """Media cores of a machine with ``count`` CPUs: a quarter from eight on, one from two on, else none."""
    if count < 2:
        return 0
    return min(SHARDS, max(1, count // 4))


def plan(topology: Topology, wanted: int | None) -> Plan:
    """The highest CPUs are for media: firmware, and by habit drivers, put their work on the lowest.

    Raises :class:`PolicyError`.
    """
    count = len(topology.online)
    number = default_cores(count) if wanted is None else wanted
    if number >= count and number > 0:
        raise PolicyError(
            f"realtime.media_cores is {number}, but this machine has {count} "
            f"CPUs and one must keep house: choose at most {count - 1}, or remove the line"
        )
    media = _whole_cores(topology, number) if count >= SPARE_SIBLINGS_FROM else []
    if len(media) < number:  # as many as asked for matter more than idle hyper-threads
        media = sorted(topology.online)[count - number :]
        idle: frozenset[int] = frozenset()
    else:
        idle = frozenset().union(*(topology.others_of(cpu) for cpu in media))
    housekeeping = topology.online - idle - frozenset(media)
    return Plan(tuple(sorted(media)), tuple(sorted(idle)), tuple(sorted(housekeeping)))


def _whole_cores(topology: Topology, number: int) -> list[int]:
    """Up to ``number`` CPUs of different physical cores, not of the first one, from the top."""
    taken = {min(topology.online)} | topology.others_of(min(topology.online))
    media: list[int] = []
    for cpu in sorted(topology.online, reverse=True):
        if len(media) < number and cpu not in taken:
            media.append(cpu)
            taken |= {cpu} | topology.others_of(cpu)
    return media


def plan_for(root: Path, answers: Answers | None) -> Plan:
    """The plan of this machine. Raises :class:`PolicyError`, or OSError without /sys."""
    return plan(cpus.read(root), answers.realtime.media_cores if answers is not None else None)


def differences(wanted: Plan, command_line: dict[str, str], last: int) -> list[str]:
    """What of ``wanted`` the kernel was not told, in words; empty when all is in force."""
    told: dict[str, frozenset[int]] = {}
    for name in NAMES:
        value = command_line.get(name, "")
        if name == "isolcpus":
            # As the kernel reads it: words that begin with a letter are flags, even a lone "N".
            flags = list(itertools.takewhile(lambda w: w[:1].isalpha(), value.split(",")))
            value = ",".join(value.split(",")[len(flags) :])
            if value and not {"managed_irq", "domain"} <= set(flags):
                return ["isolcpus lacks managed_irq or domain"]
        try:
            told[name] = cpus.parse(value, last)
        except ValueError:
            return [f"{name} has a CPU list that cannot be read"]
    out = [
        f"{name} covers {cpus.show(told[name]) or 'no CPU'}, wanted {cpus.show(wanted.isolated) or 'none'}"
        for name in NAMES[:3]
        if told[name] != wanted.isolated
    ]
    # Fewer CPUs for interrupts are as good as all that keep house.
    interrupts = told["irqaffinity"]
    if wanted.isolated and (not interrupts or interrupts & wanted.isolated):
        out.append(f"irqaffinity allows {cpus.show(interrupts) or 'every CPU'}")
    return out


@dataclass(frozen=True, slots=True)
class Outcome:
    """``reboot`` asks for one; ``problem`` is for the operator."""

    reboot: bool = False
    problem: str = ""


def apply(places: Places, wanted: Plan) -> Outcome:
    """Have GRUB tell the kernel ``wanted``. A second reboot for the same arguments is never asked for.

    Two memories guard against a loop: the arguments in GRUB's own block, and a note on data. Where neither
    can be kept there is no reboot either.
    """
    command_line = places.command_line()
    missing = differences(wanted, command_line, cpus.read(places.root).last)
    if not missing:
        files.remove(places.asked)
        return Outcome()
    what = "; ".join(missing)
    if "voice.slot" not in command_line:
        return Outcome(problem=f"{what}. Not started by the appliance's boot loader: set it there")
    try:
        with grubenv.locked(places.run):
            values = grubenv.read(places.grubenv)
            if values.get("rt_args") == wanted.arguments or _asked(places) == wanted.arguments:
                return Outcome(
                    problem=f"{what}, although the boot loader was told. "
                    f"Calls work, with more jitter; see docs/realtime.md, 'After a reboot nothing changed'"
                )
            lost = places.data_lost.exists()
            if not lost:
                files.write(
                    places.asked, json.dumps({"asked": wanted.arguments}) + "\n", mode=0o600
                )
            grubenv.write(places.grubenv, {**values, "rt_args": wanted.arguments})
    except grubenv.DamagedError as error:
        return Outcome(problem=f"{what}; {places.grubenv} {error}: restart to have it made anew")
    except OSError as error:
        return Outcome(problem=f"{what}; {places.grubenv}: {error.strerror}: check the disk")
    if lost:
        return Outcome(
            problem=f"{what}; takes effect with the next restart (data is lost, so none now)"
        )
    return Outcome(reboot=True)


def _asked(places: Places) -> str:
    try:
        found = json.loads(places.asked.read_text())
    except (OSError, ValueError):
        return ""
    return str(found.get("asked", "")) if isinstance(found, dict) else ""
