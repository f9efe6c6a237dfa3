# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge realtime-report``: what is in force, what was measured, and what a technician should make of it."""

from __future__ import annotations

import platform
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from ..settings import SettingsError
from . import cpus, provision, threads
from .measure import Wakeups, measure
from .places import Places
from .realtime import Plan, PolicyError, differences, plan_for
from .threads import Thread

FINE_US, USABLE_US = 250, 2_000
"""Wake-up latency at worst: a frame is 20,000 µs, and a jitter buffer holds at least one."""


@dataclass(frozen=True, slots=True)
class Check:
    """``state`` is ok, warn or fail; ``remedy`` is empty for ok."""

    name: str
    state: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    good: bool
    words: str


@dataclass(frozen=True, slots=True)
class Report:
    kernel: str
    plan: Plan
    checks: tuple[Check, ...]
    agent: tuple[Thread, ...]
    wakeups: Wakeups | None
    verdict: Verdict = field(default=Verdict(False, ""))

    def tree(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "plan": asdict(self.plan),
            "checks": [asdict(c) for c in self.checks],
            "threads": [{**asdict(t), "allowed": cpus.show(t.allowed)} for t in self.agent],
            "wakeups": None if self.wakeups is None else asdict(self.wakeups),
            "verdict": asdict(self.verdict),
        }

    def text(self) -> str:
        width = max(len(c.name) for c in self.checks)
        lines = [f"kernel {self.kernel}", ""]
        for check in self.checks:
            lines.append(f"{check.state:<4}  {check.name:<{width}}  {check.detail}")
            if check.remedy:
                lines.append(f"{'':<6}{'':<{width}}  → {check.remedy}")
        if self.agent:
            lines += ["", "threads of the agent"]
            lines += [
                f"  {t.name:<16} {t.policy:<6}{t.priority:>3}  may run on {cpus.show(t.allowed)}, is on {t.last_cpu}"
                for t in self.agent
            ]
        return "\n".join([*lines, "", self.verdict.words])


def collect(places: Places, *, seconds: int) -> Report:
    """Raises OSError where /proc or /sys is missing. ``seconds`` of cyclictest, 0 for none."""
    topology = cpus.read(places.root)
    checks: list[Check] = []
    try:
        answers = provision.stored(places)
    except (SettingsError, OSError):
        answers = None
    try:
        plan = plan_for(places.root, answers)
    except PolicyError as error:
        plan = plan_for(places.root, None)
        checks.append(Check("policy", "warn", str(error), "correct the answer file"))
    checks += [_kernel(places), *_isolation(places, plan, topology.last)]
    checks += [_hyperthreads(plan, topology), _interrupts(places, plan), _strangers(places, plan)]
    pids = threads.agent_pids(places.root)
    agent = [t for pid in pids for t in threads.of_process(places.root, pid)]
    checks += [*_agent(plan, agent), *_limits(places, pids[:1])]
    wakeups = measure(plan, seconds) if seconds > 0 else None
    checks.append(_measured(wakeups, virtual=_virtual(places)))
    kernel = _text(places, "proc/sys/kernel/osrelease") or platform.release()
    return Report(kernel, plan, tuple(checks), tuple(agent), wakeups, _verdict(checks))


def _verdict(checks: list[Check]) -> Verdict:
    failed = [c.name for c in checks if c.state == "fail"]
    warned = [c.name for c in checks if c.state == "warn"]
    if failed:
        words = f"NOT real time: {', '.join(failed)}. Callers may hear gaps under load; follow the arrows above."
        return Verdict(False, words)
    if warned:
        return Verdict(True, f"Real time, with a reservation: {', '.join(warned)}.")
    return Verdict(True, "Real time: media has its own cores and nothing disturbs them.")


def _kernel(places: Places) -> Check:
    # Present on PREEMPT_RT kernels only (Documentation/ABI/testing/sysfs-kernel-*).
    if _text(places, "sys/kernel/realtime") == "1":
        return Check("kernel", "ok", "PREEMPT_RT")
    return Check("kernel", "fail", "not a PREEMPT_RT kernel", "start the appliance's own kernel")


def _isolation(places: Places, plan: Plan, last: int) -> list[Check]:
    if not plan.isolated:
        detail = f"none: this machine has {len(plan.housekeeping)} CPU, or the answers say so"
        return [Check("isolation", "warn", detail, "use a machine with two or more cores")]
    out = []
    missing = differences(plan, places.command_line(), last)
    wanted = cpus.show(plan.isolated)
    if missing:
        remedy = "restart; if it stays, see docs/realtime.md"
        out.append(Check("command line", "fail", "; ".join(missing), remedy))
    else:
        out.append(Check("command line", "ok", plan.arguments))
    for name, file in (("isolation", "isolated"), ("no ticks", "nohz_full")):
        listed = _text(places, f"{cpus.SYS}/{file}")
        try:
            found = cpus.parse(listed, last)
        except ValueError:  # "(null)" without nohz_full=
            found = frozenset()
        if found == plan.isolated:
            out.append(Check(name, "ok", f"cores {listed}"))
        else:
            detail = f"kernel says {listed or 'none'}, wanted {wanted}"
            out.append(Check(name, "fail", detail, "restart; if it stays, see docs/realtime.md"))
    return out


def _hyperthreads(plan: Plan, topology: cpus.Topology) -> Check:
    shared = {c: topology.others_of(c) - plan.isolated for c in plan.media}
    busy = {c: others for c, others in shared.items() if others}
    if not busy:
        return Check("hyper-threads", "ok", "no media core is shared")
    detail = "; ".join(f"core {c} is one with {cpus.show(o)}" for c, o in busy.items())
    return Check("hyper-threads", "warn", detail, "turn hyper-threading off in the firmware")


_DISK = re.compile(r"nvme|virtio\d+-req|ahci|megasas|mpt\dsas|aacraid|hpsa|smartpqi")
"""A disk's queue of one core gives interrupts only for what that core asked for, and media threads ask for nothing."""


def _interrupts(places: Places, plan: Plan) -> Check:
    """Interrupts of devices that are served on an isolated core."""
    stray = []
    for folder in sorted((places.root / "proc/irq").glob("[0-9]*"), key=lambda p: int(p.name)):
        try:
            served = cpus.parse((folder / "effective_affinity_list").read_text())
        except (OSError, ValueError):
            continue
        actions = [p.name for p in folder.iterdir() if p.is_dir()]
        if served & plan.isolated and actions and not _DISK.search(actions[0]):
            stray.append(f"{folder.name} ({actions[0]})")
    if stray:
        detail = f"{len(stray)} served on media cores: {', '.join(stray[:4])}"
        remedy = "of a network card: fewer queues (ethtool -L <interface> combined 1)"
        return Check("interrupts", "warn", detail, remedy)
    return Check("interrupts", "ok", "none served on media cores but of their own disk queues")


def _strangers(places: Places, plan: Plan) -> Check:
    """Programs other than media threads that may run on an isolated core."""
    stray = sorted(
        {
            t.name
            for t in threads.everything(places.root)
            if t.allowed & plan.isolated and not t.kernel and not t.media and t.name != "cyclictest"
        }
    )
    if stray:
        detail = f"may run on media cores: {', '.join(stray[:6])}"
        return Check("other programs", "warn", detail, "take their CPU affinity away")
    return Check("other programs", "ok", "none may run on media cores")


def _agent(plan: Plan, agent: list[Thread]) -> list[Check]:
    if not agent:
        detail = "does not run"
        return [Check("agent", "warn", detail, "provision the box; see `voice-edge status`")]
    media = [t for t in agent if t.media]
    if not media:
        return [Check("media threads", "fail", "none", "see `journalctl -u voice-edge`")]
    out = []
    for thread in media:
        said = f"{thread.name}: {thread.policy} {thread.priority} on {cpus.show(thread.allowed)}"
        if thread.policy != "fifo":
            out.append(
                Check("media threads", "fail", said, "needs LimitRTPRIO and [media] priority")
            )
        elif plan.media and not thread.allowed <= frozenset(plan.media):
            out.append(Check("media threads", "fail", said, "needs [media] core; provision again"))
        else:
            out.append(Check("media threads", "ok", said))
    return out


def _limits(places: Places, pids: tuple[int, ...]) -> list[Check]:
    wanted = {"Max realtime priority": 95, "Max open files": 65_536, "Max locked memory": 0}
    out = []
    for pid in pids:
        found = threads.limits(places.root, pid)
        for name, least in wanted.items():
            value = found.get(name, "?")
            enough = value == "unlimited" or (least and value.isdigit() and int(value) >= least)
            state, remedy = (
                ("ok", "") if enough else ("fail", "keep the limits of voice-edge.service")
            )
            out.append(Check(name.lower(), state, value, remedy))
    return out


def _measured(wakeups: Wakeups | None, *, virtual: bool) -> Check:
    if wakeups is None:
        return Check(
            "wake-ups", "warn", "not measured", "run as root with --seconds 10 and cyclictest"
        )
    detail = (
        f"at worst {wakeups.worst_us} µs late, {wakeups.mean_us} µs on average "
        f"({wakeups.count} wake-ups on cores {wakeups.cores})"
    )
    if virtual:
        # What the host does to us says nothing about this system.
        return Check("wake-ups", "ok", f"{detail}; in a virtual machine, so only for the record")
    if wakeups.worst_us <= FINE_US:
        return Check("wake-ups", "ok", detail)
    state = "warn" if wakeups.worst_us <= USABLE_US else "fail"
    return Check(
        "wake-ups", state, detail, "see docs/realtime.md, 'Late wake-ups': firmware settings"
    )


def _virtual(places: Places) -> bool:
    flags = _text(places, "proc/cpuinfo")
    vendor = _text(places, "sys/class/dmi/id/sys_vendor")
    return "hypervisor" in flags or vendor in ("QEMU", "KVM", "VMware, Inc.", "Xen")


def _text(places: Places, name: str) -> str:
    try:
        return (places.root / name).read_text().strip()
    except OSError:
        return ""
