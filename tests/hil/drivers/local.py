# SPDX-License-Identifier: GPL-3.0-or-later
"""The appliance as a process on loopback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..peers.ports import free_block
from ..peers.process import Process, eventually
from . import Address, Event

_TESTS = Path(__file__).parent.parent.parent


def python_environment() -> dict[str, str]:
    """Ours, with `hil` importable and output unbuffered."""
    path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class LocalCore:
    """`core_process` under our own Python."""

    def __init__(
        self,
        directory: Path,
        *,
        notes: Sequence[float] = (500, 700, 1200),
        codecs: str = "PCMA,PCMU",
        max_calls: int = 40,
        media_timeout_s: float = 30.0,
        record: Path | None = None,
        media_priority: int | None = None,
        name: str = "core",
        bind: str = "127.0.0.1",
        guard: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        voice: Path | None = None,
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        media_ports = 2 * max_calls + 10
        low = free_block(media_ports)
        self.media_ports = range(low, low + media_ports)
        args = [sys.executable, "-m", "hil.drivers.core_process", "--control"]
        args += ["--rtp-ports", f"{low}-{low + media_ports - 1}", "--codecs", codecs]
        args += ["--max-calls", str(max_calls), "--media-timeout", str(media_timeout_s)]
        args += ["--notes", ",".join(str(note) for note in notes)]
        args += ["--bind", bind, "--guard", json.dumps(dict(guard or {}))]
        args += ["--set", json.dumps(dict(settings or {}))]
        if voice is not None:
            args += ["--voice", str(voice)]
        if media_priority is not None:
            args += ["--media-priority", str(media_priority)]
        if record is not None:
            record.mkdir(parents=True, exist_ok=True)
            args += ["--record", str(record)]
        self.notes = tuple(notes)
        environment = {**python_environment(), **(env or {})}
        self.process = Process(name, [*prefix, *args], directory, env=environment, stdin=True)
        self._read = 0
        self._events: list[Event] = []
        try:
            ready = self.wait_event("ready", 20)
        except BaseException:
            self.process.stop(0.1)
            raise
        self.sip: Address = (bind, int(ready["port"]))

    def alive(self) -> bool:
        return self.process.alive

    def log(self) -> str:
        return self.process.stderr()

    def events(self, kind: str | None = None) -> Sequence[Event]:
        data = self.process.stdout_path.read_bytes()[self._read :]
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._events.append(json.loads(line))
        return [event for event in self._events if kind in (None, event["event"])]

    def wait_event(self, kind: str, timeout_s: float = 5.0, **fields: Any) -> Event:
        def look() -> Event | None:
            for event in self.events(kind):
                if all(event.get(name) == value for name, value in fields.items()):
                    return event
            assert self.process.alive, f"the core process ended\n{self.process.tail()}"
            return None

        try:
            found = eventually(f"event {kind} {fields or ''}", look, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.process.tail()}") from None
        assert isinstance(found, dict)
        return found

    def call(self, sip_call_id: str, timeout_s: float = 5.0) -> int:
        """The core's own number of the call that a peer placed under this Call-ID."""
        return int(self.wait_event("call", timeout_s, sip_call_id=sip_call_id)["id"])

    def stats(self) -> Event:
        before = len(self.events("stats"))
        self._order(op="stats")

        def look() -> Event | None:
            found = self.events("stats")
            return found[before] if len(found) > before else None

        found = eventually("counters from the core process", look, 5)
        assert isinstance(found, dict)
        return found

    def dial(self, uri: str, words: str = "", timeout_s: float = 60.0, **more: Any) -> None:
        self._order(op="dial", uri=uri, words=words, timeout_s=timeout_s, **more)

    def do(self, verb: str, number: int, *, wait_s: float = 10.0, **more: Any) -> Event:
        """An operation inside of a call, by the core's number of it; its outcome, `did` or `refused`."""
        before = len(self._outcomes(verb, number))
        self._order(op="do", verb=verb, id=number, **more)

        def look() -> Event | None:
            found = self._outcomes(verb, number)
            return found[before] if len(found) > before else None

        found = eventually(f"the outcome of {verb}", look, wait_s)
        assert isinstance(found, dict)
        return found

    def _outcomes(self, verb: str, number: int) -> list[Event]:
        return [
            event
            for event in self.events()
            if event["event"] in ("did", "refused")
            and (event.get("verb"), event.get("id")) == (verb, number)
        ]

    def drain(self, retry_after_s: int = 30) -> None:
        self._order(op="drain", retry_after_s=retry_after_s)
        eventually("the core to drain", lambda: self._is_draining() is True, 5)

    def undrain(self) -> None:
        self._order(op="undrain")
        eventually("the core to take calls again", lambda: self._is_draining() is False, 5)

    def _is_draining(self) -> bool | None:
        told = self.events("draining")
        return bool(told[-1]["on"]) if told else None

    def trunk(self, name: str, server: str, **more: Any) -> None:
        """Make a trunk known; `trunk` events tell its state."""
        self._order(op="trunk", name=name, server=server, **more)

    def password(self, name: str, password: str) -> None:
        """Another password of a trunk, from now on."""
        self._order(op="password", name=name, password=password)

    def dtmf(self, number: int, digits: str, **times: int) -> None:
        """Send keys; `dtmf_sent` or `dtmf_failed` follows."""
        self._order(op="dtmf", id=number, digits=digits, times=times)

    def _order(self, **fields: Any) -> None:
        self.process.write(json.dumps(fields))

    def stop(self) -> int:
        if self.process.alive:
            self._order(op="stop")
            try:
                self.process.wait(10)
            except AssertionError:
                self.process.stop(0.1)
                raise
        return self.process.stop(1)
