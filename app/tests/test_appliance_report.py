# SPDX-License-Identifier: GPL-3.0-or-later
"""realtime-report and status on trees of /proc and /sys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from voice_edge import cli
from voice_edge.appliance import measure, notices, report, status
from voice_edge.appliance.measure import Wakeups
from voice_edge.appliance.places import Places
from voice_edge.appliance.threads import CGROUP

from .box import MINIMAL, box, put

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            65536                65536                files
Max locked memory         unlimited            unlimited            bytes
Max realtime priority     95                   95
"""


def thread(root: Path, pid: int, tid: int, name: str, *, policy: int = 0, priority: int = 0,
           allowed: str = "0", kernel: bool = False) -> None:  # fmt: skip
    """As proc_pid_stat(5) numbers the fields."""
    fields = ["0"] * 52
    fields[0], fields[1], fields[2] = str(tid), f"({name})", "S"
    fields[8] = str(0x20_0000 if kernel else 0x40_0000)
    fields[38], fields[39], fields[40] = "0", str(priority), str(policy)
    put(root, f"proc/{pid}/task/{tid}/stat", " ".join(fields) + "\n")
    put(root, f"proc/{pid}/task/{tid}/status", f"Name:\t{name}\nCpus_allowed_list:\t{allowed}\n")


def running(root: Path) -> Places:
    """A provisioned two-core box in good order."""
    places = box(root)
    put(root, "sys/kernel/realtime", "1\n")
    put(root, "proc/sys/kernel/osrelease", "6.12.0-rt\n")
    put(root, "sys/devices/system/cpu/isolated", "1\n")
    put(root, "sys/devices/system/cpu/nohz_full", "1\n")
    put(root, "proc/irq/24/effective_affinity_list", "0\n")
    put(root, "proc/irq/24/eth0/x", "")
    thread(root, 1, 1, "systemd")
    thread(root, 20, 20, "rcuop/1", allowed="0-1", kernel=True)
    thread(root, 300, 300, "voice-edge (x) y")
    thread(root, 300, 301, "vc-sip")
    thread(root, 300, 302, "vc-media-0", policy=1, priority=60, allowed="1")
    put(root, "proc/300/limits", LIMITS)
    put(root, CGROUP, "300\n")
    return places


@pytest.fixture(autouse=True)
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "measure", lambda plan, seconds: Wakeups("1", 10_000, 40, 4))


def states(places: Places) -> dict[str, str]:
    return {c.name: c.state for c in report.collect(places, seconds=1).checks}


def test_a_box_in_good_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = running(tmp_path)
    assert set(states(places).values()) == {"ok"}
    assert cli.main(["realtime-report", "--root", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "Real time: media has its own cores" in text
    assert "vc-media-0: fifo 60 on 1" in text
    assert "voice-edge (x) y" in text
    assert cli.main(["realtime-report", "--json", "--root", str(tmp_path)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["verdict"]["good"] is True
    assert tree["plan"]["media"] == [1]
    assert [t["policy"] for t in tree["threads"]] == ["other", "other", "fifo"]
    assert tree["wakeups"]["worst_us"] == 40


@pytest.mark.parametrize(
    ("file", "text", "check"),
    [
        ("sys/kernel/realtime", "0", "kernel"),
        ("proc/cmdline", "voice.slot=a quiet", "command line"),
        ("sys/devices/system/cpu/isolated", "", "isolation"),
        ("sys/devices/system/cpu/nohz_full", " (null)", "no ticks"),
        ("proc/300/limits", LIMITS.replace("95", "0 "), "max realtime priority"),
        ("proc/300/limits", LIMITS.replace("65536", "1024 "), "max open files"),
        ("proc/300/limits", LIMITS.replace("unlimited", "8388608  "), "max locked memory"),
    ],
)
def test_each_fault_fails_its_check(file: str, text: str, check: str, tmp_path: Path) -> None:
    places = running(tmp_path)
    put(tmp_path, file, text + "\n")
    found = report.collect(places, seconds=1)
    failed = [c for c in found.checks if c.state == "fail"]
    assert [c.name for c in failed] == [check]
    assert failed[0].remedy
    assert not found.verdict.good
    assert check in found.verdict.words


@pytest.mark.parametrize(
    ("policy", "allowed", "says"),
    [(0, "1", "LimitRTPRIO"), (1, "0-1", "media] core"), (1, "0", "media] core")],
)
def test_a_media_thread_out_of_place(policy: int, allowed: str, says: str, tmp_path: Path) -> None:
    places = running(tmp_path)
    thread(tmp_path, 300, 302, "vc-media-0", policy=policy, priority=60 * policy, allowed=allowed)
    found = report.collect(places, seconds=1)
    check = next(c for c in found.checks if c.name == "media threads")
    assert check.state == "fail"
    assert says in check.remedy
    assert not found.verdict.good


def test_strangers_and_interrupts_on_media_cores(tmp_path: Path) -> None:
    places = running(tmp_path)
    thread(tmp_path, 77, 77, "chronyd", allowed="0-1")
    put(tmp_path, "proc/irq/24/effective_affinity_list", "1\n")
    found = report.collect(places, seconds=1)
    warned = {c.name: c.detail for c in found.checks if c.state == "warn"}
    assert "chronyd" in warned["other programs"]
    assert "24 (eth0)" in warned["interrupts"]
    assert found.verdict.good
    assert "with a reservation" in found.verdict.words


def test_interrupts_of_no_matter(tmp_path: Path) -> None:
    """One nobody uses, and a disk's queue of the media core."""
    places = running(tmp_path)
    put(tmp_path, "proc/irq/27/effective_affinity_list", "1\n")
    put(tmp_path, "proc/irq/27/virtio1-req.1/x", "")
    put(tmp_path, "proc/irq/9/effective_affinity_list", "1\n")
    assert states(places)["interrupts"] == "ok"


def test_shared_core_is_told(tmp_path: Path) -> None:
    places = running(tmp_path)
    put(tmp_path, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n")
    assert states(places)["hyper-threads"] == "warn"


@pytest.mark.parametrize(
    ("worst", "virtual", "state"),
    [(40, False, "ok"), (900, False, "warn"), (9_000, False, "fail"), (9_000, True, "ok")],
)
def test_wakeups(
    worst: int, virtual: bool, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = running(tmp_path)
    monkeypatch.setattr(report, "measure", lambda plan, seconds: Wakeups("1", 9, worst, 4))
    if virtual:
        put(tmp_path, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert states(places)["wake-ups"] == state


def test_one_core_and_no_agent(tmp_path: Path) -> None:
    places = box(tmp_path, cores=1, line="voice.rt=none")
    put(tmp_path, "sys/kernel/realtime", "1\n")
    found = report.collect(places, seconds=0)
    assert {c.name for c in found.checks if c.state == "warn"} == {"isolation", "agent", "wake-ups"}


def test_cyclictest_output() -> None:
    tree = {
        "num_threads": 2,
        "thread": {
            "0": {"cycles": 100, "min": 1, "max": 9, "avg": 2.0},
            "1": {"cycles": 300, "min": 1, "max": 40, "avg": 4.0},
        },
    }
    assert measure.read(tree, "2-3") == Wakeups("2-3", 400, 40, 4)
    with pytest.raises(KeyError):
        measure.read({}, "1")


# --- status ---


def answers(units: dict[str, str], failed: str = "") -> status.Runner:
    def run(command: Sequence[str]) -> str:
        if command[:2] == ["systemctl", "show"]:
            return "\n\n".join(f"Id={n}\nActiveState={s}" for n, s in units.items()) + "\n"
        if command[:2] == ["systemctl", "list-units"]:
            return failed
        assert command[0] == "ip"
        return json.dumps(
            [
                {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "scope": "host"}]},
                {"ifname": "eno1", "addr_info": [{"local": "192.0.2.20", "scope": "global"}]},
            ]
        )

    return run


def test_status_of_a_box_that_answers(tmp_path: Path) -> None:
    places = box(tmp_path)
    put(tmp_path, "usr/lib/voice-edge-release", 'VERSION="1.2.3"\nPROVIDER="debian"\n')
    put(tmp_path, "data/config/answers.toml", MINIMAL)
    put(tmp_path, "run/voice-edge/slot-good", "")
    found = status.collect(
        places, answers({"voice-edge.service": "active", "ssh.service": "inactive"})
    )
    assert found.healthy
    assert found.addresses == ("192.0.2.20 (eno1)",)
    text = found.text()
    for words in (
        "voice-edge 1.2.3   slot A\n",
        "answering calls",
        "voice-edge.local",
        "192.0.2.20 (eno1)",
    ):
        assert words in text
    assert found.tree()["units"]["ssh.service"] == "inactive"


def test_status_of_a_fresh_box(tmp_path: Path) -> None:
    found = status.collect(box(tmp_path), answers({"voice-edge.service": "inactive"}))
    assert found.healthy
    assert "waiting for its answer file" in found.text()
    assert "not yet marked good" in found.text()


@pytest.mark.parametrize(
    ("agent", "failed"),
    [("failed", ""), ("inactive", ""), ("active", "chrony.service loaded failed failed x")],
)
def test_status_of_a_box_in_trouble(agent: str, failed: str, tmp_path: Path) -> None:
    places = box(tmp_path)
    put(tmp_path, "data/config/answers.toml", MINIMAL)
    found = status.collect(places, answers({"voice-edge.service": agent}, failed))
    assert not found.healthy
    assert ("NOT ANSWERING" in found.text()) == (agent != "active")
    assert ("chrony.service" in found.text()) == bool(failed)


def test_status_tells_lost_data_and_notices(tmp_path: Path) -> None:
    places = box(tmp_path)
    put(tmp_path, "run/voice-edge-data-lost", "")
    notices.tell(places, "provision", ["a.toml:2: x: wrong. Mend it"])
    found = status.collect(places, answers({}))
    assert not found.healthy
    assert "! provision: a.toml:2: x: wrong. Mend it" in found.text()
    assert "data partition could not be mounted" in found.text()


def test_status_without_systemd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is missing is left out, not a traceback."""
    box(tmp_path)
    monkeypatch.setattr(status, "run", lambda command: "")
    monkeypatch.setattr(status.collect, "__defaults__", (lambda command: "",))
    assert cli.main(["status", "--json", "--root", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["slot"] == "A"
