# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie on the appliance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .answers import FILE


@dataclass(frozen=True, slots=True)
class Places:
    """All below ``root``, which is ``/`` on the box."""

    root: Path

    @property
    def stored(self) -> Path:
        """The answers in force; what else is derived from them is made anew at every boot."""
        return self.root / "data/config/answers.toml"

    @property
    def kept(self) -> Path:
        """Answers as each release found them good, by its version: what an older one returns to."""
        return self.root / "data/config/kept"

    @property
    def update_wanted(self) -> Path:
        """Made when the answers name a channel: without it the timer's service does not start."""
        return self.run / "update-wanted"

    def version(self) -> str:
        """The running release's; empty where this is not an appliance."""
        try:
            text = (self.root / "usr/lib/voice-edge-release").read_text()
        except OSError:
            return ""
        found = re.search(r'^VERSION="([^"/]*)"$', text, re.MULTILINE)
        return found[1] if found else ""

    @property
    def seen(self) -> Path:
        return self.root / "data/config/seen.json"

    @property
    def asked(self) -> Path:
        """Which real-time arguments a reboot was asked for."""
        return self.root / "data/config/realtime.json"

    @property
    def run(self) -> Path:
        return self.root / "run/voice-edge"

    @property
    def agent(self) -> Path:
        """The agent's settings and secrets, handed over as credentials; for root only."""
        return self.run / "agent"

    @property
    def notices(self) -> Path:
        """One JSON file a command that has something to tell; shown by ``voice-edge status``."""
        return self.run / "notices"

    @property
    def slot_good(self) -> Path:
        """Made once the running slot was marked good in this boot."""
        return self.run / "slot-good"

    @property
    def authorized_keys(self) -> Path:
        return self.root / "data/ssh/authorized_keys"

    @property
    def stick(self) -> Path:
        """Where run-stick.mount shows a stick labelled VOICE-EDGE, read-only."""
        return self.root / "run/stick" / FILE

    @property
    def esp(self) -> Path:
        return self.root / "boot/efi" / FILE

    @property
    def grubenv(self) -> Path:
        return self.root / "boot/efi/grub/grubenv"

    @property
    def data_lost(self) -> Path:
        """Made by the initrd when the data partition could not be mounted."""
        return self.root / "run/voice-edge-data-lost"

    def command_line(self) -> dict[str, str]:
        """The kernel's command line; a word without ``=`` has an empty value, the last one wins."""
        words = (self.root / "proc/cmdline").read_text().split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}
