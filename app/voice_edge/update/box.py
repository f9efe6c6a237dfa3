# SPDX-License-Identifier: GPL-3.0-or-later
"""The box as updates see it: what runs, which slot starts next, RAUC, and a reboot."""

from __future__ import annotations

import re
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..appliance import bootenv, grubenv
from ..appliance.places import Places
from . import loop_call
from .refusals import Refusal, explain

INSTALL_S = 3_600
DRAIN_S = 7_500
"""The longest that [update] drain_s allows, and some."""
Runner = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a program for at most so many seconds; returns how it ended and what it said."""


class UpdateError(Exception):
    """An update that stops here."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text())
        self.refusal = refusal


def run(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except FileNotFoundError:
        return 127, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]} did not end within {timeout_s:g} s"
    return done.returncode, done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Box:
    """All below ``places.root``, with programs run by ``runner`` and calls to the agent's port placed by ``caller``."""

    places: Places
    runner: Runner = run
    caller: Callable[[int], int] = loop_call.place

    @property
    def folder(self) -> Path:
        return self.places.root / "data/update"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def keyring(self) -> Path:
        return self.places.root / "etc/rauc/keyring.pem"

    def release(self) -> dict[str, str]:
        """VERSION, ARCH, BUILD_TIME of what runs; empty where this is not an appliance."""
        try:
            text = (self.places.root / "usr/lib/voice-edge-release").read_text()
        except OSError:
            return {}
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {name: value.strip('"') for name, _, value in pairs}

    def compatible(self) -> str:
        """What RAUC compares; empty without its settings."""
        try:
            lines = (self.places.root / "etc/rauc/system.conf").read_text().splitlines()
        except OSError:
            return ""
        named = [line for line in lines if line.startswith("compatible=")]
        return named[0].partition("=")[2] if named else ""

    def machine_id(self) -> str:
        try:
            return (self.places.root / "etc/machine-id").read_text().strip()
        except OSError:
            return ""

    def slot(self) -> str:
        """``A`` or ``B``. Raises :class:`~voice_edge.appliance.bootenv.NoSlotError`."""
        return bootenv.running_slot(self.places)

    def slot_good(self) -> bool:
        return self.places.slot_good.exists()

    def boot_id(self) -> str:
        """Another one at each start (random(4))."""
        try:
            return (self.places.root / "proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""

    def counters(self) -> dict[str, str]:
        """The boot loader's; empty when they cannot be read, which bootenv mends and tells."""
        try:
            return grubenv.read(self.places.grubenv)
        except (OSError, grubenv.DamagedError):
            return {}

    def install(self, bundle: Path, *, downgrade: bool) -> None:
        """Write the other slot. Raises :class:`UpdateError`."""
        options = ["--ignore-version-limit"] if downgrade else []
        code, said = self.runner(["rauc", "install", *options, str(bundle)], INSTALL_S)
        if code != 0:
            raise UpdateError(explain(said))

    def start_next(self, slot: str) -> None:
        """The boot loader tries ``slot`` next, and is read back. Raises :class:`UpdateError`."""
        try:
            with grubenv.locked(self.places.run):
                values = bootenv.preferring(grubenv.read(self.places.grubenv), slot)
                grubenv.write(self.places.grubenv, values)
        except (OSError, grubenv.DamagedError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            what = f"the boot counters cannot be changed: {reason}"
            remedy = "Restart once, which mends them; if it stays so, flash the image again"
            raise UpdateError(Refusal("ota.bootenv", what, remedy, again=True)) from None

    def reboot(self) -> None:
        """When calls have ended: the agent refuses new ones with 503 and waits for those that are up.

        It is stopped first, since systemd does not wait for a unit's end as long as calls may last (reboot.target).
        """
        self.runner(["systemctl", "stop", "voice-edge.service"], DRAIN_S)
        self.runner(["systemctl", "--no-block", "reboot"], 30)

    def loop_call(self) -> int:
        """How far a call to the box's own agent comes (loop_call.py)."""
        try:
            return self.caller(loop_call.agent_port(self.places.agent / "voice-edge.toml"))
        except (OSError, ValueError):  # not provisioned, or no sockets left
            return loop_call.NOTHING

    def trunks_up(self) -> int:
        """Registered, or answering OPTIONS; 0 when the agent does not run."""
        show = ["systemctl", "show", "--property=StatusText", "--value", "voice-edge.service"]
        found = re.search(r"(\d+) of \d+ trunks up", self.runner(show, 20)[1])
        return int(found[1]) if found else 0

    def certificates(self) -> Sequence[tuple[str, float]]:
        """Name and end (Unix time) of each authority that releases are trusted by."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=self.keyring.read_text())
        except (OSError, ValueError, ssl.SSLError):
            return []
        found = []
        for certificate in context.get_ca_certs():
            subject: Any = certificate["subject"]
            names = [pair[1] for part in subject for pair in part]
            found.append((str(names[-1]), ssl.cert_time_to_seconds(str(certificate["notAfter"]))))
        return found


def other(slot: str) -> str:
    return "B" if slot == "A" else "A"


def day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "never"
