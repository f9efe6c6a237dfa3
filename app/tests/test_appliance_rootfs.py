# SPDX-License-Identifier: GPL-3.0-or-later
"""The overlay: units hardened and wired, nothing open, and the same ports and secrets as the agent has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from voice_edge import cli
from voice_edge.appliance import commands, render
from voice_edge.appliance.places import Places
from voice_edge.settings.model import Guard, Sip, SipTimers, Tls

from .box import put

OVERLAY = Path(__file__).parents[2] / "rootfs-overlay"
UNITS = OVERLAY / "usr/lib/systemd/system"
OURS = sorted(p for p in UNITS.glob("voice-edge*.service") if p.is_file() and not p.is_symlink())
HARDEST = 25
"""Exposure of `systemd-analyze security`, times ten (issue 4)."""


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"(?m)^{key}=(.*)$", unit.read_text())


def test_there_are_units() -> None:
    assert len(OURS) >= 11


@pytest.mark.parametrize("unit", OURS, ids=lambda p: p.name)
def test_every_unit_is_started_by_something(unit: Path) -> None:
    """Links, not presets or systemctl at build time: both providers get the same."""
    started = {p.name for p in UNITS.glob("*.wants/*")}
    rules = "".join(p.read_text() for p in OVERLAY.rglob("*.rules"))
    timed = {f"{p.stem}.service" for p in UNITS.glob("*.timer")}
    dropins = "".join(p.read_text() for p in UNITS.glob("*.d/*.conf"))
    assert unit.name in started | timed or unit.name in rules or f"Wants={unit.name}" in dropins


def test_links_lead_somewhere() -> None:
    """To /dev/null (masked), to a file of ours, or to a unit that systemd or a package brings."""
    foreign = {"systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service"}
    foreign |= {"chrony.service", "ssh.service", "multi-user.target"}
    for path in OVERLAY.rglob("*"):
        if not path.is_symlink():
            continue
        target = os.readlink(path)
        known = target == "/dev/null" or path.exists() or Path(target).name in foreign
        assert known, f"{path.relative_to(OVERLAY)} → {target}"


@pytest.mark.parametrize("unit", OURS, ids=lambda p: p.name)
def test_commands_exist(unit: Path) -> None:
    for line in values(unit, "ExecStart"):
        program, *words = line.split()
        if program == "/usr/bin/voice-edge":
            assert words[0] in {"run", "update", *commands.COMMANDS}
        elif program.startswith("/usr/libexec/voice-edge/"):
            assert os.access(OVERLAY / program[1:], os.X_OK)
        else:
            assert program in {"/usr/sbin/nft", "/usr/bin/hostname"}


@pytest.mark.parametrize("unit", OURS, ids=lambda p: p.name)
def test_exposure(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze security` on the unit with its drop-ins, offline."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here (Debian: systemd)")
    shutil.copytree(OVERLAY / "usr", tmp_path / "usr", symlinks=True)
    command = [
        analyze,
        "security",
        "--offline=true",
        f"--root={tmp_path}",
        f"--threshold={HARDEST}",
    ]
    done = subprocess.run(
        [*command, "--no-pager", unit.name], capture_output=True, text=True, check=False
    )
    assert "Overall exposure level" in done.stdout, done.stderr
    assert done.returncode == 0, done.stdout[-300:]


def test_exposure_test_can_fail(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here (Debian: systemd)")
    put(tmp_path, "usr/lib/systemd/system/soft.service", "[Service]\nExecStart=/bin/true\n")
    command = [
        analyze,
        "security",
        "--offline=true",
        f"--root={tmp_path}",
        f"--threshold={HARDEST}",
    ]
    assert subprocess.run([*command, "soft.service"], capture_output=True, check=False).returncode


def test_the_agents_limits() -> None:
    agent = UNITS / "voice-edge.service"
    assert values(agent, "LimitRTPRIO") == ["95"]
    assert values(agent, "LimitMEMLOCK") == ["infinity"]
    assert values(agent, "LimitNOFILE") == ["65536"]
    assert values(agent, "User") == ["voice-edge"]
    # SCHED_FIFO must stay possible.
    assert values(agent, "RestrictRealtime") == []


def test_the_agent_is_handed_all_that_provisioning_writes() -> None:
    agent = UNITS / "voice-edge.service"
    folder = Places(Path("/")).agent
    wanted = [f"{name}:{folder}/{name}" for name in ("voice-edge.toml", *render.SECRETS)]
    assert values(agent, "LoadCredential") == wanted
    assert values(agent, "ConditionPathExists") == [f"{folder}/voice-edge.toml"]
    assert values(agent, "ReadWritePaths") == [render.RECORDINGS]


def test_firewall_opens_the_agents_ports_and_denies_the_rest() -> None:
    rules = (OVERLAY / "etc/voice-edge/firewall.nft").read_text()
    sip = Sip(timers=SipTimers(), tls=Tls(), guard=Guard())
    low, high = sip.rtp_ports
    assert f"define sip = {sip.port}\n" in rules
    assert f"define rtp = {low}-{high}\n" in rules
    assert rules.count("policy drop") == 2
    accepts = [line.strip() for line in rules.splitlines() if line.strip().endswith("accept")]
    assert accepts
    for line in accepts:
        narrowed = re.search(r'@\w+[46] |iifname "lo"|ttl|hoplimit|fe80::/10|limit rate', line)
        assert narrowed, f"open to everybody: {line}"
    places = Places(Path("/"))
    assert (
        f"{places.run}/nftables.d/*.nft"
        in (OVERLAY / "etc/voice-edge/firewall-sets.nft").read_text()
    )
    for name in ("trunk4", "trunk6", "media4", "media6", "admin4", "admin6"):
        assert f"set {name} {{" in rules
        assert f"inet voice_edge {name}" in render.firewall(None)


def test_nothing_lets_in_by_password() -> None:
    config = (OVERLAY / "etc/ssh/sshd_config").read_text()
    for line in (
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "AuthenticationMethods publickey",
    ):
        assert f"\n{line}\n" in config
    places = Places(Path("/"))
    assert f"AuthorizedKeysFile {places.authorized_keys}\n" in config
    dropin = (UNITS / "ssh.service.d/voice-edge.conf").read_text()
    assert f"ConditionFileNotEmpty={places.authorized_keys}\n" in dropin
    for name in ("getty@", "serial-getty@", "debug-shell"):
        assert os.readlink(OVERLAY / f"etc/systemd/system/{name}.service") == "/dev/null"
    ssh_generator = OVERLAY / "etc/systemd/system-generators/systemd-ssh-generator"
    assert os.readlink(ssh_generator) == "/dev/null"


def test_folders_of_provisioning_are_made_before_it() -> None:
    made = {line.split()[1] for line in (OVERLAY / "usr/lib/tmpfiles.d/voice-edge.conf").read_text().splitlines()
            if line.startswith("d ")}  # fmt: skip
    paths = {p for unit in OURS for line in values(unit, "ReadWritePaths") for p in line.split()}
    assert paths - {"-/boot/efi", "/data"} <= made


# --- small programs ---


@pytest.mark.parametrize(
    ("isolated", "house", "affinity"),
    [
        ("1\n", "0", "[Service]\nCPUAffinity=0\n"),
        ("2-3\n", "0-1", "[Service]\nCPUAffinity=0-1\n"),
        ("\n", "0-1", None),
    ],
)
def test_affinity_of_the_agent(
    isolated: str, house: str, affinity: str | None, tmp_path: Path
) -> None:
    put(tmp_path, "sys/devices/system/cpu/isolated", isolated)
    put(
        tmp_path,
        "proc/1/status",
        f"Name:\tsystemd\nCpus_allowed:\tff\nCpus_allowed_list:\t{house}\n",
    )
    generator = OVERLAY / "usr/lib/systemd/system-generators/voice-edge-affinity"
    out = tmp_path / "generated"
    out.mkdir()
    subprocess.run(
        [generator, out, out, out], check=True, env={**os.environ, "VOICE_EDGE_ROOT": str(tmp_path)}
    )
    made = out / "voice-edge.service.d/20-affinity.conf"
    assert (made.read_text() if made.exists() else None) == affinity


@pytest.mark.parametrize(("disk", "grown"), [(2_000_000, True), (402_033, False)])
def test_data_grows_over_free_space_only(disk: int, grown: bool, tmp_path: Path) -> None:
    """Partition 6 of a disk, 2048 + 400,000 sectors; programs replaced by ones that write down their words."""
    sys = tmp_path / "sys"
    put(sys, "vda/size", f"{disk}\n")
    for name, value in (("partition", 6), ("start", 2048), ("size", 400_000 - 2048)):
        put(sys, f"vda/vda6/{name}", f"{value}\n")
    (sys / "vda6").symlink_to("vda/vda6")
    log = tmp_path / "log"
    for name in ("sfdisk", "partx", "resize2fs"):
        program = put(tmp_path, f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        program.chmod(0o755)
    done = subprocess.run(
        [OVERLAY / "usr/libexec/voice-edge/grow-data", "/dev/vda6"],
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SYSFS": str(sys)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = log.read_text().splitlines()
    assert said[-1] == "resize2fs /dev/vda6"
    assert (
        any(line.startswith("sfdisk ") and "--partno 6 /dev/vda" in line for line in said) == grown
    )
    assert ("partx --update --nr 6 /dev/vda" in said) == grown
    assert ("growing" in done.stdout) == grown


def test_partition_really_grows(tmp_path: Path) -> None:
    """The sfdisk words of grow-data on an image that was written to a larger disk."""
    sfdisk = shutil.which("sfdisk")
    if sfdisk is None:
        pytest.skip("sfdisk is not installed here (Debian: fdisk)")
    disk = tmp_path / "disk.img"
    disk.touch()
    os.truncate(disk, 64 << 20)
    table = "label: gpt\nstart=2048,size=2048,name=esp\nstart=4096,size=20480,name=data\n"
    quiet = ["--quiet", "--no-reread", "--no-tell-kernel"]
    subprocess.run([sfdisk, *quiet, disk], input=table, text=True, check=True, capture_output=True)
    os.truncate(disk, 256 << 20)
    script = (OVERLAY / "usr/libexec/voice-edge/grow-data").read_text()
    words = re.search(r"echo '(.*)' \| sfdisk (.*) --partno", script)
    assert words is not None
    subprocess.run(
        [sfdisk, *words[2].split(), "--partno", "2", disk],
        input=words[1],
        text=True,
        check=True,
        capture_output=True,
    )
    dump = subprocess.run(
        [sfdisk, "--dump", disk], text=True, check=True, capture_output=True
    ).stdout
    sectors = [int(n) for n in re.findall(r"size= *(\d+)", dump)]
    assert sectors[0] == 2048
    assert sectors[1] > (256 << 20) // 512 - 4096 - 4096


def test_host_key_is_whole_or_not_there(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed here (Debian: openssh-client)")
    script = OVERLAY / "usr/libexec/voice-edge/make-host-key"
    put(tmp_path, ".new-host-key", "half of a ke")  # what a power cut left
    subprocess.run([script, tmp_path], check=True, capture_output=True)
    assert {p.name for p in tmp_path.iterdir()} == {"host_ed25519_key", "host_ed25519_key.pub"}
    assert (tmp_path / "host_ed25519_key").stat().st_mode & 0o777 == 0o600


def test_the_command_line_knows_every_command_of_the_appliance() -> None:
    assert set(cli.APPLIANCE) == set(commands.COMMANDS)
