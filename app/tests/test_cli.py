# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line, signals, and what the process asks of the system."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voice_edge import __version__, cli, process

from .test_service import settings_for
from .virtual import run

# --- command line ---


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"voice-edge {__version__}\n"


@pytest.mark.parametrize("command", ["run", "check"])
def test_wrong_settings_exit_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "v.toml"
    file.write_text("[sip]\nport = 1.5\n")
    assert cli.main([command, "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file}:2: sip.port:" in error
    assert "llm.url: is missing" in error


def test_unknown_option_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "--config", "x", "--colour"])
    assert caught.value.code == 2
    assert "--colour" in capsys.readouterr().err


def test_demo_gets_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Demo:
        @staticmethod
        def main(arguments: list[str]) -> int:
            seen.append(arguments)
            return 7

    monkeypatch.setattr("importlib.import_module", lambda name: {"voice_edge.demo": Demo}[name])
    assert cli.main(["demo", "--out", "x"]) == 7
    assert seen == [["--out", "x"]]


class Stuck:
    """A service that takes its time to stop."""

    instances: list[Stuck] = []  # noqa: RUF012

    def __init__(self, settings: Any, *, ready: Callable[[tuple[str, int]], None]) -> None:
        self.ready = ready
        self.stopping = asyncio.Event()
        self.finish_s = 0.0
        self.draining = False
        self.rereads = 0
        Stuck.instances.append(self)

    def stop(self) -> None:
        self.stopping.set()

    def reread(self) -> None:
        self.rereads += 1

    def end_drain(self) -> bool:
        was, self.draining = self.draining, False
        return was

    async def run(self) -> None:
        self.ready(("127.0.0.1", 5060))
        await self.stopping.wait()
        await asyncio.sleep(self.finish_s)


def test_first_signal_stops_second_ends_calls_and_third_forces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forced: list[int] = []
    monkeypatch.setattr("voice_edge.service.Service", Stuck)
    monkeypatch.setattr("os._exit", forced.append)
    ready = tmp_path / "ready.json"

    async def scenario() -> None:
        task = asyncio.create_task(cli._serve(settings_for("http://127.0.0.1:1"), ready))
        await asyncio.sleep(0.1)
        service = Stuck.instances[-1]
        service.finish_s = 60.0
        service.draining = True
        assert json.loads(ready.read_text()) == {"sip": ["127.0.0.1", 5060], "pid": os.getpid()}
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(1.0)
        assert service.rereads == 1
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(1.0)
        assert service.stopping.is_set()
        assert not task.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(1.0)
        assert not service.draining
        assert forced == []
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(1.0)
        assert forced == [130]
        await task

    run(scenario())


# --- process ---


def test_descriptor_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert process.raise_descriptor_limit() == 4_096
    assert "LimitNOFILE=65536" in caplog.text
    caplog.clear()
    limits.append((1_024, 1 << 20))
    assert process.raise_descriptor_limit() == 65_536
    assert limits[-1] == (65_536, 1 << 20)
    limits.append((1 << 17, 1 << 20))
    assert process.raise_descriptor_limit() == 1 << 17
    assert limits[-1] == (1 << 17, 1 << 20)  # never lowered
    assert caplog.text == ""


def test_systemd_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "n"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        process.notify("READY=1")
        listener.settimeout(5)
        assert listener.recv(100) == b"READY=1"
    process.notify("READY=1")  # nobody listens any more: a warning, no more
    monkeypatch.delenv("NOTIFY_SOCKET")
    process.notify("READY=1")


@pytest.mark.parametrize(
    ("asked", "pid", "beats"), [("10000000", None, 7), ("", None, 0), ("10000000", "1", 0)]
)
def test_watchdog_hears_the_loop_twice_as_often_as_it_asks(
    asked: str, pid: str | None, beats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(process, "notify", told.append)
    monkeypatch.setenv("WATCHDOG_USEC", asked)
    monkeypatch.setenv("WATCHDOG_PID", pid or str(os.getpid()))

    async def scenario() -> None:
        task = asyncio.create_task(process.heartbeat())
        await asyncio.sleep(31)
        task.cancel()

    run(scenario())
    assert told == ["WATCHDOG=1"] * beats


def test_math_libraries_get_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environ := {"OMP_NUM_THREADS": "3"})
    process.one_math_thread()
    assert environ == {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
