# SPDX-License-Identifier: GPL-3.0-or-later
"""The system that was booted: whole, read-only, closed, its own."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil.qemu import answers, disk
from hil.qemu.guest import Guest

if TYPE_CHECKING:
    from hil.qemu.box import TelephoneBox
    from hil.qemu.strategy import ApplianceStrategy

MIB = 1 << 20
EXPOSURE_AT_MOST = 2.5
PROBE_S = 3.0


def test_no_unit_failed(guest: Guest) -> None:
    failed = guest.say("systemctl list-units --failed --plain --no-legend --full")
    assert failed == "", guest.say("systemctl status --no-pager --failed")
    assert guest.say("systemctl is-system-running --wait", 60) == "running"


def test_no_ordering_cycle(guest: Guest) -> None:
    journal = guest.run("journalctl --boot --output=cat --no-pager", 60).splitlines()
    assert any("Startup finished" in line or "Reached target" in line for line in journal), (
        "this journal would not tell"
    )
    told = [line for line in journal if re.search("ordering cycle|deleted to break", line)]
    assert told == []


def test_root_is_read_only_and_verified(guest: Guest) -> None:
    mount = json.loads(guest.run("findmnt --json --output SOURCE,FSTYPE,OPTIONS /"))
    (root,) = mount["filesystems"]
    assert root["source"] == "/dev/mapper/root"
    assert root["fstype"] == "erofs"
    assert "ro" in root["options"].split(",")
    assert "Read-only file system" in guest.fails("touch /usr/lib/probe")
    _, _, kind, status, *_ = guest.run("dmsetup status root").split()
    assert (kind, status) == ("verity", "V"), "V is verified so far, C is corrupt"
    # … verity <version> <data> <hash> <sizes…> <algorithm> <top hash> <salt> …
    table = guest.run("dmsetup table root").split()
    assert guest.command_line()["voice.verity"] in table


def test_data_uses_the_whole_disk(guest: Guest) -> None:
    source = guest.run("findmnt --noheadings --output SOURCE /data")
    parent = guest.run(f"lsblk --noheadings --output PKNAME {source}")
    whole = int(guest.run(f"lsblk --bytes --nodeps --noheadings --output SIZE /dev/{parent}"))
    sizes = guest.run(f"lsblk --bytes --noheadings --raw --output TYPE,SIZE /dev/{parent}")
    parts = [line.split() for line in sizes.splitlines()]
    used = sum(int(size) for kind, size in parts if kind == "part")
    assert whole - used < 40 * MIB, f"{(whole - used) // MIB} MiB of the disk lie idle"
    size = int(guest.run(f"lsblk --bytes --nodeps --noheadings --output SIZE {source}"))
    room = int(guest.run("df --block-size=1 --output=size /data").split()[-1])
    assert room > size * 0.9, "the partition grew, its file system did not"


def test_identity_is_of_this_box(guest: Guest) -> None:
    own = guest.run("cat /etc/machine-id")
    assert re.fullmatch(r"[0-9a-f]{32}", own)
    assert guest.run("cat /data/etc/machine-id") == own
    # Random: 32 hex digits of 16 kinds that all come up less than 5 times are one in 10^9.
    assert len(set(own)) >= 5
    assert guest.say("ls -d /etc/ssh/ssh_host_*").strip() == "", "host keys came with the image"
    assert guest.run("stat --format=%a /data/ssh/host_ed25519_key") == "600"
    assert guest.run("hostname") == answers.HOSTNAME
    assert re.search(r"Link .*: yes", guest.run("resolvectl mdns")), "no mDNS name"


@pytest.mark.lg_feature("disk")
def test_image_carries_no_identity(appliance: ApplianceStrategy, tmp_path: Path) -> None:
    disk.flash(appliance.source.image, tmp_path / "fresh.raw", 1600)
    names = set(disk.files_of_data(tmp_path / "fresh.raw", tmp_path / "data"))
    assert names == {".", "..", "lost+found"}


def test_no_password_opens_it(guest: Guest) -> None:
    for line in guest.run("cat /etc/shadow").splitlines():
        assert line.split(":")[1] in ("*", "!", "!*"), f"{line.partition(':')[0]} has a password"
    settings = guest.run("sshd -T", 60).lower().splitlines()
    assert "passwordauthentication no" in settings
    assert "kbdinteractiveauthentication no" in settings
    assert "permitrootlogin prohibit-password" in settings or (
        "permitrootlogin without-password" in settings
    )


def test_no_other_key_opens_it(guest: Guest, appliance: ApplianceStrategy, tmp_path: Path) -> None:
    assert guest.run("id --user") == "0"
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    network = appliance.network
    options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
    options += ["BatchMode=yes", f"ConnectTimeout={30 * appliance.box.patience:.0f}"]
    command = ["ssh", "-F", "none", "-i", str(key), "-p", str(network.port), "-l", "root"]
    command += [word for option in options for word in ("-o", option)]
    done = subprocess.run(
        [*command, network.address, "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_firewall_lets_in_what_the_answers_say(guest: Guest, telephone: TelephoneBox) -> None:
    listed = json.loads(guest.run("nft --json list ruleset"))["nftables"]
    chains = [entry["chain"] for entry in listed if "chain" in entry]
    policies = {chain["hook"]: chain["policy"] for chain in chains if "hook" in chain}
    assert policies["input"] == "drop"
    assert policies["forward"] == "drop"
    sets = {
        entry["set"]["name"]: entry["set"].get("elem", []) for entry in listed if "set" in entry
    }
    assert sets["trunk4"] == [telephone.tester]
    assert sets["media4"] == [telephone.tester]
    assert sets["admin4"] == [telephone.tester]
    assert sets["trunk6"] == sets["media6"] == sets["admin6"] == []


@pytest.mark.lg_feature("emulated")
def test_firewall_is_in_force(guest: Guest, telephone: TelephoneBox) -> None:
    from hil.qemu.machine import PROBED_PORT

    guest.run(
        "systemd-run --quiet --unit=probe --property=Type=exec "
        f"systemd-socket-activate --accept --listen={PROBED_PORT} --inetd echo let-in"
    )
    try:
        inside = f"exec 3<>/dev/tcp/127.0.0.1/{PROBED_PORT}; head -c 6 <&3"
        assert _eventually(guest, f"timeout 20 bash -c '{inside}'") == "let-in"
        before = int(guest.run(REFUSED))
        with socket.create_connection((telephone.address, PROBED_PORT), PROBE_S) as probe:
            probe.settimeout(PROBE_S)
            try:
                heard = probe.recv(16)
            except TimeoutError:
                heard = b""
        assert heard == b"", "a port that nobody opened let us in"
        assert _eventually(guest, f"[ $({REFUSED}) -gt {before} ] && echo seen") == "seen"
    finally:
        guest.say("systemctl stop probe.service")


def _eventually(guest: Guest, command: str) -> str:
    for _ in range(10):
        said = guest.say(command)
        if said:
            break
        time.sleep(1)
    return said


REFUSED = r"""nft list ruleset | sed -n 's/.*counter packets \([0-9]*\) .*"refused".*/\1/p'"""


@pytest.mark.lg_feature("watchdog")
def test_watchdog_is_armed(guest: Guest) -> None:
    state = guest.run(
        "cat /sys/class/watchdog/watchdog0/state /sys/class/watchdog/watchdog0/timeout"
    )
    assert state.split() == ["active", "30"]


def test_our_units_are_confined(guest: Guest) -> None:
    listed = guest.run("systemctl list-unit-files --no-legend --plain 'voice-edge*.service'")
    units = [line.split()[0] for line in listed.splitlines()]
    assert "voice-edge.service" in units
    said = guest.run(f"systemd-analyze security --no-pager {' '.join(units)}", 120)
    found = re.findall(r"Overall exposure level for (\S+): (\d+\.\d)", said)
    assert {unit for unit, _ in found} == set(units)
    exposed = {unit: level for unit, level in found if float(level) > EXPOSURE_AT_MOST}
    assert exposed == {}


def test_journal_has_a_quota_and_stays(guest: Guest) -> None:
    settings = guest.run("systemd-analyze cat-config --no-pager systemd/journald.conf").splitlines()
    assert "Storage=persistent" in settings
    assert any(re.match(r"SystemMaxUse=\d+[MG]", line) for line in settings)
    machine = guest.run("cat /etc/machine-id")
    assert ".journal" in guest.run(f"ls /var/log/journal/{machine}")
    assert guest.run("findmnt --noheadings --output FSTYPE /var") == "overlay"


def test_clock_is_kept(guest: Guest) -> None:
    assert guest.run("systemctl is-active chrony.service") == "active"


def test_status_says_that_calls_are_answered(guest: Guest) -> None:
    status = guest.json("voice-edge status --json", 60)
    assert status["healthy"] is True, status
    assert (status["provisioned"], status["agent"], status["slot"]) == (True, "active", "A")
    assert status["slot_good"] is True
    assert status["hostname"] == answers.HOSTNAME
    assert status["data_lost"] is False
    assert status["notices"] == []
    assert "answering calls" in guest.run("voice-edge status", 60)


def test_boot_counters_are_back(guest: Guest) -> None:
    counters = guest.boot_counters()
    assert (counters["A_OK"], counters["A_TRY"]) == ("1", "0")
    assert counters["ORDER"].split()[0] == "A"
    assert counters["LAST_GOOD"] == "A"


def test_console_shows_the_status_and_no_secret(
    guest: Guest, appliance: ApplianceStrategy, answer_file: str
) -> None:
    deadline = time.monotonic() + 60 * appliance.box.patience
    while not appliance.on_console("answering calls"):
        assert time.monotonic() < deadline, "the console never said that calls are answered"
        time.sleep(1)
    assert appliance.on_console(f"{answers.HOSTNAME}.local")
    assert not appliance.on_console("(?m)login:"), "there is no password to log in with"
