# SPDX-License-Identifier: GPL-3.0-or-later
"""Several engines in one process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..peers.ports import free_block
from ..peers.process import Process, eventually
from . import Address, Event
from .local import python_environment


class Engines:
    """`engines_process` under our own Python. Ends by `stop`."""

    def __init__(self, directory: Path) -> None:
        args = [sys.executable, "-m", "hil.drivers.engines_process"]
        self.process = Process("engines", args, directory, env=python_environment(), stdin=True)
        self._wait("ready", 0, 20)

    def events(self, kind: str) -> list[Event]:
        lines = self.process.stdout().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in told if event["event"] == kind]

    def _wait(self, kind: str, before: int, timeout_s: float) -> Event:
        def look() -> Event | None:
            found = self.events(kind)
            assert self.process.alive, f"the engines ended\n{self.process.tail()}"
            return found[before] if len(found) > before else None

        found = eventually(f"an answer to {kind}", look, timeout_s)
        assert isinstance(found, dict)
        return found

    def ask(self, op: str, timeout_s: float = 15.0, **fields: Any) -> Event:
        before = len(self.events(op))
        self.process.write(json.dumps({"op": op, **fields}))
        return self._wait(op, before, timeout_s)

    def start(self, name: str, max_calls: int = 60, **config: Any) -> Address:
        """Start an engine; where its SIP is."""
        ports = 2 * max_calls + 10
        low = free_block(ports)
        whole = {"bind": "127.0.0.1", "sip_port": 0, "max_calls": max_calls, **config}
        whole["rtp_ports"] = (low, low + ports - 1)
        told = self.ask("start", name=name, config=whole)
        return str(told["host"]), int(told["port"])

    def stop(self) -> int:
        if self.process.alive:
            self.process.write('{"op": "quit"}')
        try:
            self.process.wait(10)
        finally:
            status = self.process.stop(1)
        return status
