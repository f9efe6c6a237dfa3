# SPDX-License-Identifier: GPL-3.0-or-later
"""Real time as in force in /proc and /sys, and as the box's own report tells it."""

from __future__ import annotations

import pytest

from hil.qemu import answers
from hil.qemu.guest import FIFO, Guest, cores

LIMITS = {
    "Max open files": "65536",
    "Max realtime priority": "95",
    "Max locked memory": "unlimited",
}


def test_kernel_is_preempt_rt(guest: Guest) -> None:
    assert guest.run("cat /sys/kernel/realtime") == "1"
    assert "PREEMPT_RT" in guest.run("uname --kernel-version")


def test_cores_are_isolated(guest: Guest) -> None:
    isolated = guest.isolated()
    online = cores(guest.run("cat /sys/devices/system/cpu/online"))
    assert isolated, "no core is set aside for media"
    assert isolated < online, "one core must keep house"
    assert cores(guest.run("cat /sys/devices/system/cpu/nohz_full")) == isolated
    words = guest.command_line()
    # N is the kernel's name for the last core (kernel-parameters.txt).
    last = str(max(online))
    assert {"managed_irq", "domain"} <= set(words["isolcpus"].split(","))
    for name in ("nohz_full", "rcu_nocbs"):
        assert cores(words[name].replace("N", last)) == isolated, name
    assert not cores(words["irqaffinity"]) & isolated


def test_limits_of_the_agent(guest: Guest) -> None:
    lines = guest.run(f"cat /proc/{guest.agent()}/limits").splitlines()
    found = {line[:26].strip(): line[26:].split()[0] for line in lines[1:]}
    assert {name: found[name] for name in LIMITS} == LIMITS


def test_media_thread_has_its_core_and_priority(guest: Guest) -> None:
    pid = guest.agent()
    media = [thread for thread in guest.threads() if thread.media]
    assert {thread.pid for thread in media} == {pid}
    for thread in media:
        assert (thread.policy, thread.priority) == (FIFO, answers.MEDIA_PRIORITY), thread
        assert thread.allowed <= guest.isolated(), thread
        assert len(thread.allowed) == 1, thread
        assert thread.last_core in thread.allowed, thread


def test_nothing_else_runs_on_isolated_cores(guest: Guest) -> None:
    isolated = guest.isolated()
    programs = [thread for thread in guest.threads() if not thread.kernel and not thread.media]
    assert len(programs) > 10, "this would not have shown them"
    assert [thread for thread in programs if thread.allowed & isolated] == []
    assert [thread for thread in programs if thread.last_core in isolated] == []


def test_interrupts_stay_off_isolated_cores(guest: Guest) -> None:
    isolated = guest.isolated()
    said = guest.say("grep -H . /proc/irq/*/effective_affinity_list")
    places = {line.split("/")[3]: cores(line.partition(":")[2]) for line in said.splitlines()}
    assert len(places) > 3, said
    # Queues of devices with one for each core are managed: they stay there, idle, as nobody does I/O there.
    managed = {irq for irq, place in places.items() if place & isolated}
    counts = guest.run("cat /proc/interrupts").splitlines()
    for line in counts[1:]:
        irq, _, rest = line.strip().partition(":")
        if irq in managed:
            happened = [int(number) for number in rest.split() if number.isdigit()]
            assert sum(happened[core] for core in isolated) < 50, line


@pytest.mark.parametrize("seconds", [3])
def test_report_calls_it_real_time(guest: Guest, seconds: int) -> None:
    report = guest.json(f"voice-edge realtime-report --json --seconds {seconds}", 120)
    states = {check["name"]: (check["state"], check["detail"]) for check in report["checks"]}
    assert [name for name, (state, _) in states.items() if state == "fail"] == [], states
    assert report["verdict"]["good"] is True, report["verdict"]
    assert report["wakeups"] is not None, "cyclictest did not run"
    assert report["wakeups"]["count"] > 0
    assert states["kernel"] == ("ok", "PREEMPT_RT")
    media = [thread for thread in report["threads"] if thread["name"].startswith("vc-media")]
    assert media, report["threads"]
    assert {(thread["policy"], thread["priority"]) for thread in media} == {
        ("fifo", answers.MEDIA_PRIORITY)
    }
