# SPDX-License-Identifier: GPL-3.0-or-later
"""SIPp (Debian's sip-tester) as the peer: one run of one scenario file, and what it counted.

What SIPp 3.6.1 (Debian 12) measures of RTP: `rtp_stream` counts packets it handed to the kernel and reads nothing;
`-rtp_echo` reads every packet that reaches its media port, sends it back and counts it once sent. All
calls of a run share that one media port. So the echo counter is the only receive counter there is.
3.7.3 (Debian 13) gives each streaming call a port of its own and words the screens otherwise.
"""

from __future__ import annotations

import csv
import re
import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from .ports import free_block, free_port
from .process import Process, eventually

SCENARIOS = Path(__file__).parent.parent / "scenarios"
Address = tuple[str, int]


@dataclass(frozen=True)
class Counters:
    """End figures of a run."""

    calls: int
    successful: int
    failed: int
    retransmissions: int
    unexpected: int
    rtp_sent: int  # rtp_stream packets handed to the kernel
    rtp_echoed: int  # packets received on the media port and sent back


@dataclass(frozen=True)
class Traced:
    """One SIP message as SIPp saw it; `at` is in seconds of the wall clock, line ends are plain."""

    at: float
    received: bool
    text: str

    def field(self, name: str) -> str | None:
        """First value of a header field or, with `m=` and the like, of an SDP line."""
        mark = re.escape(name) if name.endswith("=") else re.escape(name) + r"\s*:\s*"
        found = re.search(rf"^{mark}(.*)$", self.text, re.MULTILINE | re.IGNORECASE)
        return found.group(1).strip() if found else None

    def direction(self) -> str:
        """The SDP's direction attribute; sendrecv where it has none (RFC 8866 section 6.7)."""
        found = re.search(r"^a=(sendrecv|sendonly|recvonly|inactive)$", self.text, re.MULTILINE)
        return found.group(1) if found else "sendrecv"


class Sipp:
    """One SIPp process. As a caller it sends to `remote`; without `remote` it waits for calls."""

    def __init__(
        self,
        scenario: str,
        directory: Path,
        *,
        remote: Address | None = None,
        calls: int = 1,
        rate: float = 10,
        limit: int | None = None,
        timeout_s: int = 20,
        keys: Mapping[str, str | int] | None = None,
        echo: bool = False,
        count_rtp: bool = False,
        real_time: bool = False,
        user: str = "agent",
        extra: Sequence[str] = (),
        expand: Mapping[str, str] | None = None,
    ) -> None:
        program = shutil.which("sipp")
        assert program, "sipp is not installed: apt-get install sip-tester"
        source = SCENARIOS / f"{scenario}.xml"
        directory.mkdir(parents=True, exist_ok=True)
        if expand:  # attributes (file names, times) that SIPp's own keywords do not reach
            text = source.read_text(encoding="utf-8")
            for name, value in expand.items():
                assert f"@{name}@" in text, f"{source} has no @{name}@"
                text = text.replace(f"@{name}@", value)
            source = directory / source.name
            source.write_text(text, encoding="utf-8")
        self.port = free_port()
        self.media_port = free_block(4)
        self._base = directory / scenario
        args = [program, "-sf", str(source), "-i", "127.0.0.1", "-bind_local"]
        args += ["-p", str(self.port), "-mi", "127.0.0.1", "-mp", str(self.media_port)]
        args += ["-cp", str(free_port()), "-ci", "127.0.0.1"]
        args += ["-m", str(calls), "-r", str(rate), "-l", str(limit or calls), "-s", user]
        args += ["-timeout", f"{timeout_s}s", "-timeout_error", "-nostdin", "-skip_rlimit"]
        traces = [("err", "error"), ("logs", "log"), ("screen", "screen")]
        if not count_rtp:  # under load it would write megabytes while packets wait
            traces.append(("msg", "message"))
        for flag, suffix in traces:
            args += [f"-trace_{flag}", f"-{suffix}_file", f"{self._base}.{suffix}s"]
        args += ["-trace_stat", "-stf", f"{self._base}.csv", "-fd", "1"]
        for name, content in (keys or {}).items():
            args += ["-key", name, str(content)]
        if echo:
            args.append("-rtp_echo")
        args += ["-rtp_threadtasks", "500", *extra]  # one sending thread: its counter takes no lock
        if remote is not None:
            args.append(f"{remote[0]}:{remote[1]}")
        if real_time:
            args = ["chrt", "--rr", "40", *args]
        self._timeout_s = timeout_s
        self._count_rtp = count_rtp
        self.process = Process(scenario, args, directory)
        if count_rtp:
            threading.Thread(target=self._sample, name="sipp-screens", daemon=True).start()

    @property
    def address(self) -> Address:
        return ("127.0.0.1", self.port)

    def _sample(self) -> None:
        """Ask for a screen now and then: the one written at exit leaves out the RTP lines.

        The load scenarios end with a pause after the last packet, in which the figures no longer move.
        """
        while self.process.alive:
            if Path(f"{self._base}.csv").exists():  # before that the signal would end it
                self.process.send(signal.SIGUSR2)
            time.sleep(0.4)

    def _text(self, suffix: str) -> str:
        path = Path(f"{self._base}.{suffix}s")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def messages(self) -> str:
        """Every SIP message sent and received, as SIPp traced it."""
        return self._text("message")

    def log(self) -> list[str]:
        """Lines of the scenario's own <log> actions."""
        return self._text("log").splitlines()

    def call_id(self, number: int = 1) -> str:
        """Call-ID of the n-th call placed."""
        return f"{number}-{self.process.pid}@127.0.0.1"

    def trace(self) -> list[Traced]:
        """Messages sent and received so far, in order."""
        found = []
        parts = re.split(r"^-{20,} (\S+ [\d:.]+)\n", self.messages(), flags=re.MULTILINE)
        for stamp, part in zip(parts[1::2], parts[2::2], strict=True):
            head, _, text = part.partition("\n\n")
            if head.startswith("UDP message"):
                at = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").timestamp()
                found.append(Traced(at, "received" in head, text.replace("\r", "")))
        return found

    def received(self, first_line: str) -> list[Traced]:
        """Received messages whose first line begins so, oldest first."""
        return [
            message
            for message in self.trace()
            if message.received and message.text.startswith(first_line)
        ]

    def answers(self, method: str, status: int) -> list[Traced]:
        """Received responses of this status to requests of this method."""
        return [
            message
            for message in self.received(f"SIP/2.0 {status}")
            if re.search(rf"^CSeq:\s*\d+\s+{method}$", message.text, re.MULTILINE | re.IGNORECASE)
        ]

    def ended_at(self) -> float:
        """When the first BYE was sent or received, in monotonic seconds."""
        byes = [message.at for message in self.trace() if message.text.startswith("BYE ")]
        assert byes, "no BYE in SIPp's trace"
        return byes[0] - (time.time() - time.monotonic())

    def remote_rtp(self, timeout_s: float = 5.0) -> Address:
        """Where the appliance wants RTP: connection and port of the newest SDP it sent."""

        def look() -> Address | None:
            for message in reversed(self.received("")):
                port = re.search(r"^m=audio (\d+)", message.text, re.MULTILINE)
                host = re.search(r"^c=IN IP4 (\S+)", message.text, re.MULTILINE)
                if port and host:
                    return host.group(1), int(port.group(1))
            return None

        found = eventually("an SDP from the appliance in SIPp's trace", look, timeout_s)
        assert isinstance(found, tuple)
        return found

    def finish(self, expected: int = 0) -> Counters:
        """Wait for the end; AssertionError with SIPp's own words unless it exits with `expected`."""
        try:
            code = self.process.wait(self._timeout_s + 5)
        finally:
            self.stop()
        if code != expected:
            raise AssertionError(
                f"SIPp scenario {self._base.name} exited with {code}, {expected} wanted\n"
                f"{self._text('error')[-3000:]}\n{self.process.stderr()[-1000:]}\n"
                f"--- messages\n{self.messages()[-4000:]}"
            )
        return self.counters()

    def stop(self) -> None:
        self.process.stop(2.0, first=signal.SIGUSR1)

    def counters(self) -> Counters:
        """Figures from the last row of SIPp's statistics and from its last screen."""
        with open(f"{self._base}.csv", encoding="ascii", errors="replace") as source:
            row = list(csv.DictReader(source, delimiter=";"))[-1]
        screens = self._text("screen")

        def last(pattern: str) -> int:
            figures = re.findall(pattern, screens)
            return int(figures[-1]) if figures else 0

        return Counters(
            calls=int(row["TotalCallCreated"]),
            successful=int(row["SuccessfulCall(C)"]),
            failed=int(row["FailedCall(C)"]),
            retransmissions=int(row["Retransmissions(C)"]),
            unexpected=int(row["FailedUnexpectedMessage(C)"]),
            rtp_sent=last(r"(\d+) Total (?:AUDIO )?RTP pckts sent +[\d.]+ kB/s \S*.*OUT"),
            rtp_echoed=last(r"(\d+) Total echo RTP pckts 1st stream"),
        )
