# SPDX-License-Identifier: GPL-3.0-or-later
"""baresip as the peer: a SIP stack that shares nothing with PJSIP, driven over its TCP control socket."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from .ports import free_block, free_port
from .process import Process, eventually

_MODULE_PATHS = (Path("/usr/lib/baresip/modules"), *Path("/usr/lib").glob("*/baresip/modules"))


class Baresip:
    """One baresip with one account and no registrar. It plays `play` (mono WAV) into its calls."""

    def __init__(
        self,
        directory: Path,
        *,
        play: Path,
        codec: str = "pcma",
        answer: str = "auto",
        media_encryption: str = "",
    ) -> None:
        """`media_encryption`: "srtp" (keys under RTP/AVP) or "srtp-mand" (RTP/SAVP), none when empty."""
        rate = 16_000 if codec == "g722" else 8_000  # of `play` too
        name = f"{codec}/{rate}/1"
        program = shutil.which("baresip")
        assert program, "baresip is not installed: apt-get install baresip-core"
        self._home = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._control_port = free_port()
        rtp = free_block(20)
        config = [
            "poll_method epoll",
            f"sip_listen 127.0.0.1:{self.port}",
            "net_interface 127.0.0.1",
            "call_local_timeout 60",
            "call_max_calls 4",
            f"audio_source aufile,{play}",
            # a player has to exist for the receive side to run; this one goes nowhere
            "audio_player aubridge,nowhere",
            "audio_alert aubridge,alert",
            f"ausrc_srate {rate}",
            f"auplay_srate {rate}",
            "ausrc_channels 1",
            "auplay_channels 1",
            f"rtp_ports {rtp}-{rtp + 19}",
            "rtcp_enable yes",
            "audio_buffer 20-160",
            f"snd_path {directory}",
            f"ctrl_tcp_listen 127.0.0.1:{self._control_port}",
            "dns_server 127.0.0.1:9",  # no name is ever looked up
        ]
        from_package = next((path for path in _MODULE_PATHS if path.is_dir()), None)
        assert from_package, "baresip's modules are not where Debian puts them"
        config.append(f"module_path {from_package}")
        config += [
            f"module {name}.so"
            for name in ("g711", "g722", "aufile", "aubridge", "sndfile", "uuid", "srtp")
        ]
        config += [f"module_app {name}.so" for name in ("account", "menu", "ctrl_tcp")]
        (directory / "config").write_text("\n".join(config) + "\n", encoding="utf-8")
        (directory / "accounts").write_text(
            f"<sip:peer@127.0.0.1:{self.port}>;regint=0;audio_codecs={name};answermode={answer}"
            + (f";mediaenc={media_encryption}" if media_encryption else "")
            + "\n",
            encoding="utf-8",
        )
        (directory / "contacts").write_text("", encoding="utf-8")
        self.process = Process("baresip", [program, "-f", str(directory), "-v"], directory)
        self._socket = self._connect()
        self._pending = b""
        self.events: list[dict[str, Any]] = []

    @property
    def uri(self) -> str:
        return f"sip:peer@127.0.0.1:{self.port}"

    def _connect(self) -> socket.socket:
        def attempt() -> socket.socket | None:
            assert self.process.alive, f"baresip did not start\n{self.process.tail()}"
            try:
                return socket.create_connection(("127.0.0.1", self._control_port), 1)
            except OSError:
                return None

        found = eventually("baresip's control socket", attempt, 10)
        assert isinstance(found, socket.socket)
        return found

    def command(self, name: str, params: str = "") -> None:
        """One command as a netstring (`LENGTH:JSON,`), as ctrl_tcp takes it."""
        text = json.dumps({"command": name, "params": params, "token": "hil"}).encode()
        self._socket.sendall(b"%d:%s," % (len(text), text))

    def poll(self, wait_s: float = 0.0) -> None:
        """Read what events there are."""
        self._socket.settimeout(max(wait_s, 0.001))
        try:
            data = self._socket.recv(65536)
        except (TimeoutError, BlockingIOError):
            return
        self._pending += data
        while True:
            length, colon, rest = self._pending.partition(b":")
            if not colon or len(rest) < int(length) + 1:
                return
            size = int(length)
            self._pending = rest[size + 1 :]
            message = json.loads(rest[:size])
            if message.get("event"):
                self.events.append(message)

    def wait_event(self, kind: str, timeout_s: float = 10.0) -> dict[str, Any]:
        """First event of this type since the start or the last take of it."""
        end = time.monotonic() + timeout_s
        while True:
            for place, event in enumerate(self.events):
                if event.get("type") == kind:
                    return self.events.pop(place)
            assert time.monotonic() < end, (
                f"baresip gave no {kind} within {timeout_s} s; it gave {self.events}\n{self.process.tail()}"
            )
            self.poll(0.05)

    def dial(self, uri: str) -> None:
        self.command("dial", uri)

    def hangup(self) -> None:
        self.command("hangup")

    def recording(self) -> Path:
        """What baresip decoded from the peer (sndfile's dump)."""
        dumps = sorted(self._home.glob("dump-*-dec.wav"))
        assert dumps, f"baresip wrote no recording\n{self.process.tail()}"
        return dumps[-1]

    def stop(self) -> None:
        self._socket.close()
        self.process.stop(3.0, first=signal.SIGTERM)

    def __enter__(self) -> Baresip:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
