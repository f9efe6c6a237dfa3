# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything a demo needs around the call: a folder, model servers, the agent with its settings."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import tomllib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .. import toml_out
from .children import Child
from .dialogue import script
from .problems import DemoError

_STANDINS_READY_S = 120.0
_AGENT_READY_S = 30.0
_RTP_PORTS = 64
RECORDINGS = "recordings"


def default_config() -> Path:
    """config/demo.toml of the checkout. Raises DemoError if this is none."""
    path = Path(__file__).resolve().parents[3] / "config" / "demo.toml"
    if not path.is_file():
        raise DemoError(f"{path} is missing; name the demo's settings with --config")
    return path


def settings(template: Path, standins_url: str, recordings: Path) -> dict[str, Any]:
    """The template with this run's addresses in it. Raises DemoError if it cannot be read."""
    try:
        tree = tomllib.loads(template.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DemoError(f"{template}: {error}") from error
    for table in ("sip", "recording", "llm", "tts", "stt"):
        tree.setdefault(table, {})
    base = free_udp_ports(_RTP_PORTS)
    tree["sip"] |= {"bind": "127.0.0.1", "port": 0, "rtp_ports": [base, base + _RTP_PORTS - 1]}
    tree["recording"]["dir"] = str(recordings)
    for server in ("llm", "tts", "stt"):
        tree[server]["url"] = standins_url
    return tree


def free_udp_ports(count: int) -> int:
    """First of ``count`` UDP ports in a row that are free now, an even one (RFC 3550 §11)."""
    chance = random.SystemRandom()
    for _ in range(50):
        base = chance.randrange(20000, 32000, 2)  # below the kernel's own choices
        sockets = []
        try:
            for port in range(base, base + count):
                one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sockets.append(one)
                one.bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
        return base
    raise DemoError(f"no {count} free UDP ports in a row on 127.0.0.1 from 20000 to 32000")


def _remove_leftovers(out: Path) -> None:
    """Working folders of demos that were killed before they could tidy up."""
    for folder in out.glob(".run-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """Owns the processes and the working folder; leaving the block ends and removes them all."""

    def __init__(self, out: Path) -> None:
        self.out = out
        # A relative path in the agent's settings would be relative to their file; mkdtemp makes
        # its result absolute by itself only from Python 3.12 on.
        self._absolute_out = out.absolute()
        self._work: Path | None = None
        self._children: list[Child] = []
        self.standins_url = ""

    async def __aenter__(self) -> Self:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(self.out)
            work = tempfile.mkdtemp(prefix=f".run-{os.getpid()}-", dir=self._absolute_out)
            self._work = Path(work)
            self.recordings.mkdir()
        except OSError as error:
            raise DemoError(f"{self.out}: {error.strerror}; choose another with --out") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for child in reversed(self._children):
                await child.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """End everything at once."""
        for child in self._children:
            child.kill()
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)

    @property
    def work(self) -> Path:
        """This run's folder. Raises RuntimeError outside the block."""
        if self._work is None:
            raise RuntimeError("use the stage in an async with block")
        return self._work

    @property
    def recordings(self) -> Path:
        return self.work / RECORDINGS

    async def start_standins(self) -> None:
        """Start the model servers; returns once they serve. Raises DemoError."""
        if importlib.util.find_spec("voice_edge_standins") is None:
            raise DemoError(
                "the stand-in model servers (voice_edge_standins) are not installed here;"
                " run ./justw demo, or put app/standins on PYTHONPATH"
            )
        script_file, port_file = self.work / "script.toml", self.work / "standins.port"
        script_file.write_text(toml_out.dumps(script()), encoding="utf-8")
        # They stand for machines of their own on the LAN: the agent goes first on this one.
        child = self._start(
            "the model servers",
            [
                *("-m", "voice_edge_standins", "--nice", "5"),
                *("--port-file", str(port_file), "--script", str(script_file)),
            ],
            "standins.log",
        )
        port = int(await child.wait_for_file(port_file, _STANDINS_READY_S))
        self.standins_url = f"http://127.0.0.1:{port}"

    async def start_agent(self, template: Path) -> tuple[str, int]:
        """Start ``voice-edge run`` with this run's settings; returns its SIP address."""
        config, ready = self.work / "agent.toml", self.work / "agent.ready"
        tree = settings(template, self.standins_url, self.recordings)
        config.write_text(toml_out.dumps(tree), encoding="utf-8")
        child = self._start(
            "the agent",
            ["-m", "voice_edge", "run", "--config", str(config), "--ready-file", str(ready)],
            "agent.log",
        )
        host, port = json.loads(await child.wait_for_file(ready, _AGENT_READY_S))["sip"]
        return str(host), int(port)

    async def stop_agent(self) -> None:
        """End the agent as an operator would. Raises DemoError if it does not end well."""
        agent = self._children[-1]
        agent.require_alive()
        code = await agent.stop()
        if code != 0:
            raise DemoError(
                f"{agent.name} ended with exit code {code} after SIGTERM;"
                f" its log ends with\n{agent.log_tail()}"
            )

    def _start(self, name: str, arguments: list[str], log: str) -> Child:
        child = Child(name, [sys.executable, *arguments], self.out / log)
        self._children.append(child)
        return child
