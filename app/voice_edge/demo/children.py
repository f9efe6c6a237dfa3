# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes that do not outlive the demo, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .problems import DemoError

_POLL_S = 0.05
_TAIL = 12
_TIED = Path(__file__).with_name("tied.py")


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


class Child:
    """A program (its path first) in a process group of its own; its output goes to ``log``.

    It gets SIGTERM when this process dies, even by SIGKILL (Linux).
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        tied = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), *command]
        with log.open("wb") as output:
            # A group of its own: Ctrl-C reaches the demo only, which then ends things in order.
            self._process = subprocess.Popen(
                tied,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def log_tail(self) -> str:
        """The last lines it printed."""
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join(f"    {line}" for line in lines)

    async def wait_for_file(self, path: Path, timeout_s: float) -> str:
        """Wait until the child has written a file; returns its text. Raises DemoError."""
        deadline = time.monotonic() + timeout_s
        while True:
            text = _text(path)
            if text is not None:
                return text
            self.require_alive()
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{self.name} was not ready after {timeout_s:.0f} s; its log {self._log}"
                    f" ends with\n{self.log_tail()}"
                )
            await asyncio.sleep(_POLL_S)

    def require_alive(self) -> None:
        """Raises DemoError if the child has ended."""
        code = self.exit_code
        if code is not None:
            raise DemoError(
                f"{self.name} ended with exit code {code}; its log {self._log} ends with\n"
                f"{self.log_tail()}"
            )

    async def stop(self, grace_s: float = 4.0) -> int:
        """SIGTERM to the group, SIGKILL after a while; returns the exit code."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            await asyncio.sleep(_POLL_S)
        self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """End the whole group at once; blocks only for the kernel."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # While the leader is not reaped its group's number cannot belong to anybody else.
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
