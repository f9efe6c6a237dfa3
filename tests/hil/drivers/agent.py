# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole agent, `voice-edge run`, as a process on loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..peers.models import RATE
from ..peers.ports import free_block
from ..peers.process import Process, eventually
from . import Address
from .local import python_environment

_CONFIG = """
[sip]
bind = "127.0.0.1"
port = 0
rtp_ports = [{low}, {high}]
max_calls = {max_calls}
[recording]
dir = "{recordings}"
[agent]
system_prompt = "Answer."
greeting = "Hello."
patience_s = 60.0
idle_s = 60.0
max_call_s = 300.0
[llm]
url = "{url}"
model = "{names.llm}"
[tts]
url = "{url}"
model = "{names.tts}"
voice = "{names.voice}"
rate = {names.rate}
[stt]
url = "{url}"
model = "{names.stt}"
[service]
drain_s = {drain_s}
[log]
level = "debug"
{more}
"""


@dataclass(frozen=True)
class Names:
    """What the model servers call their models, and the rate of their voice in Hz."""

    llm: str = "any"
    tts: str = "any"
    stt: str = "any"
    voice: str = "any"
    rate: int = RATE


ANY = Names()
STANDINS = Names("scripted", "joe-us-piper", "whisper-tiny.en", "joe", 22_050)


def installed(arguments: list[str]) -> list[str]:
    """The agent of this checkout's environment."""
    return [sys.executable, "-m", "voice_edge", *arguments]


class LocalAgent:
    """Answers calls with the model servers at `url`, which have models of these `names`.

    `more` is appended to its settings, `command` makes its command line from its arguments, `env` is its
    environment. Without `start` there are only its settings.
    """

    def __init__(
        self,
        directory: Path,
        url: str,
        *,
        max_calls: int = 20,
        names: Names = ANY,
        drain_s: float = 0,
        more: str = "",
        start: bool = True,
        command: Callable[[list[str]], list[str]] = installed,
        env: Mapping[str, str] | None = None,
    ) -> None:
        low = free_block(2 * max_calls + 10)
        self.media_ports = range(low, low + 2 * max_calls + 10)
        self.recordings = directory / "recordings"
        self.recordings.mkdir(parents=True)
        self.config, self._ready = directory / "agent.toml", directory / "agent.ready"
        self.config.write_text(
            _CONFIG.format(
                low=low,
                high=self.media_ports[-1],
                max_calls=max_calls,
                recordings=self.recordings,
                url=url,
                names=names,
                drain_s=drain_s,
                more=more,
            ),
            encoding="utf-8",
        )
        args = command(["run", "--config", str(self.config), "--ready-file", str(self._ready)])
        if start:
            self.process = Process("agent", args, directory, env=env or python_environment())

    def log(self) -> str:
        """All that it has logged so far."""
        return self.process.stderr()

    def wait_ready(self, timeout_s: float = 20.0) -> Address:
        """SIP address, once calls are answered."""

        def look() -> bool:
            assert self.process.alive, f"the agent ended\n{self.process.tail()}"
            return self._ready.exists()

        eventually("the agent to be ready", look, timeout_s)
        host, port = json.loads(self._ready.read_text(encoding="utf-8"))["sip"]
        return str(host), int(port)
