# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the appliance runs.

A scenario asks for an `Appliance` and never learns what is behind it: today a process on loopback
(`local`), later the shipped disk image under QEMU (`qemu`) and a box reached over the network (`ssh`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Address = tuple[str, int]
Event = dict[str, Any]


class Appliance(Protocol):
    """A core that answers calls as the dialled user part says (see `core_process`)."""

    sip: Address
    media_ports: range

    def alive(self) -> bool:
        """True while the process runs."""
        ...

    def log(self) -> str:
        """Everything logged so far."""
        ...

    def events(self, kind: str | None = None) -> Sequence[Event]:
        """What was reported so far, oldest first."""
        ...

    def wait_event(self, kind: str, timeout_s: float = 5.0, **fields: Any) -> Event:
        """First event of this kind and with these fields, waited for; AssertionError when none comes."""
        ...

    def stats(self) -> Event:
        """The engine's counters now."""
        ...

    def dial(self, uri: str, words: str = "", timeout_s: float = 60.0) -> None:
        """Have the appliance call `uri`; the outcome comes as an event."""
        ...

    def stop(self) -> int:
        """Stop as an operator does; exit status."""
        ...
