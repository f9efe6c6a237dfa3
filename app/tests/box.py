# SPDX-License-Identifier: GPL-3.0-or-later
"""A root tree with just what the appliance's commands look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from voice_edge.appliance import bootenv, cpus, grubenv
from voice_edge.appliance.places import Places

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA someone@example.com"

MINIMAL = """\
[trunk]
addresses = ["198.51.100.0/24"]
[llm]
url = "http://192.0.2.10:8000"
model = "m"
[tts]
url = "http://192.0.2.10:8001"
model = "m"
voice = "v"
[stt]
url = "http://192.0.2.10:8002"
model = "m"
[agent]
system_prompt = "Help."
"""


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def box(
    root: Path,
    *,
    cores: int = 2,
    line: str = "isolcpus=managed_irq,domain,1-N nohz_full=1-N rcu_nocbs=1-N irqaffinity=0",
    slot: str = "a",
    siblings: Mapping[int, str] | None = None,
) -> Places:
    """A machine as it starts for the first time."""
    put(root, f"{cpus.SYS}/online", f"0-{cores - 1}\n")
    put(root, f"{cpus.SYS}/possible", f"0-{cores - 1}\n")
    for cpu, shared in (siblings or {}).items():
        put(root, f"{cpus.SYS}/cpu{cpu}/topology/thread_siblings_list", shared + "\n")
    put(root, "proc/cmdline", f"BOOT_IMAGE=x voice.slot={slot} rauc.slot={slot.upper()} {line}\n")
    put(root, "proc/sys/kernel/hostname", "voice-edge\n")
    put(root, "proc/uptime", "12.34 20.00\n")
    places = Places(root)
    grubenv.write(places.grubenv, bootenv.fresh(slot.upper()))
    return places
