# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge status``: the one page an operator looks at, also shown on the consoles."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import notices
from .places import Places

UNITS = (
    "voice-edge.service",
    "voice-edge-provision.service",
    "voice-edge-realtime.service",
    "voice-edge-firewall.service",
    "systemd-networkd.service",
    "chrony.service",
    "ssh.service",
)
_LOOK_EVERY_S = 20.0

Runner = Callable[[Sequence[str]], str]
"""Runs a program and returns its output, empty when it cannot."""


def run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


@dataclass(frozen=True, slots=True)
class Status:
    version: str
    provider: str
    slot: str
    slot_good: bool
    hostname: str
    addresses: tuple[str, ...]
    provisioned: bool
    agent: str  # active, activating, failed, inactive
    units: dict[str, str]
    failed: tuple[str, ...]
    data_lost: bool
    notices: tuple[str, ...]
    uptime_s: int

    @property
    def healthy(self) -> bool:
        """A box that was told nothing yet is well; one that was must run its agent."""
        agent_well = self.agent == "active" or not self.provisioned
        return agent_well and not self.failed and not self.data_lost

    def tree(self) -> dict[str, Any]:
        return {"healthy": self.healthy, **asdict(self)}

    def text(self) -> str:
        if not self.provisioned:
            state = "waiting for its answer file"
        else:
            state = {"active": "answering calls", "activating": "starting"}.get(
                self.agent, f"NOT ANSWERING (agent {self.agent or 'unknown'})"
            )
        slot = f"slot {self.slot or '?'}{'' if self.slot_good else ', not yet marked good'}"
        lines = [
            f"voice-edge {self.version or '?'}   {slot}",
            f"  state    {state}",
            f"  name     {self.hostname}.local",
            f"  address  {', '.join(self.addresses) or 'none yet'}",
        ]
        if self.failed:
            lines.append(f"  failed   {', '.join(self.failed)}")
        lines += [f"  ! {notice}" for notice in self.notices]
        return "\n".join(lines)


def collect(places: Places, runner: Runner = run) -> Status:
    """Look around; what cannot be found out is left empty."""
    release = _assignments(_text(places, "usr/lib/voice-edge-release"))
    try:
        slot = places.command_line().get("voice.slot", "").upper()
    except OSError:
        slot = ""
    units = _units(runner)
    failed = runner(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--full"])
    return Status(
        version=release.get("VERSION", ""),
        provider=release.get("PROVIDER", ""),
        slot=slot,
        slot_good=places.slot_good.exists(),
        hostname=_text(places, "proc/sys/kernel/hostname").strip(),
        addresses=_addresses(runner(["ip", "-json", "address", "show", "scope", "global"])),
        provisioned=places.stored.exists(),
        agent=units.get("voice-edge.service", ""),
        units=units,
        failed=tuple(line.split()[0] for line in failed.splitlines() if line.split()),
        data_lost=places.data_lost.exists(),
        notices=tuple(notices.all_of(places)),
        uptime_s=int(float((_text(places, "proc/uptime").split() or ["0"])[0])),
    )


def watch(places: Places, terminals: Sequence[Path]) -> NoReturn:
    """For consoles: the page again whenever it changed. Without ``terminals`` to standard output."""
    shown = ""
    while True:
        page = collect(places).text()
        if page != shown:
            # Not cleared: what the kernel wrote in between may be what matters.
            text = f"\n{page}\n\n"
            if not terminals:
                print(text, end="", flush=True)
            for terminal in terminals:
                _show(terminal, text)
            shown = page
        time.sleep(_LOOK_EVERY_S)


def _show(terminal: Path, text: str) -> None:
    """A machine without a screen, or without a serial line, is as well."""
    try:
        handle = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(handle, text.replace("\n", "\r\n").encode())
    except OSError:
        pass
    finally:
        os.close(handle)


def _units(runner: Runner) -> dict[str, str]:
    said = runner(["systemctl", "show", "--property=Id,ActiveState", *UNITS])
    found: dict[str, str] = {}
    for block in said.split("\n\n"):
        values = _assignments(block)
        if "Id" in values:
            found[values["Id"]] = values.get("ActiveState", "")
    return found


def _addresses(said: str) -> tuple[str, ...]:
    try:
        links = json.loads(said or "[]")
        return tuple(
            f"{address['local']} ({link['ifname']})"
            for link in links
            for address in link.get("addr_info", ())
            if address.get("scope") == "global"
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _assignments(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip('"') for name, _, value in pairs}


def _text(places: Places, name: str) -> str:
    try:
        return (places.root / name).read_text()
    except OSError:
        return ""
