# SPDX-License-Identifier: GPL-3.0-or-later
"""Many SIPp calls at once with RTP, against a core in a process of its own.

`echo`: the core plays to every call and SIPp sends each packet back. SIPp's echo counter is then what
it received, so it must equal what the core says it sent; the core's loss counters (by RTP sequence
number) cover the way back. `stream`: SIPp plays an A-law file to the core on SIPp's own clock; SIPp
counts what it sent, the core what came; SIPp reads nothing in this mode.

    python -m hil.load --calls 100 --seconds 60 --mode echo      (with tests/ on PYTHONPATH)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.ports import udp_drops
from hil.peers.process import eventually
from hil.peers.sipp import Counters, Sipp

_SUMMED = (
    "rx_packets",
    "rx_lost",
    "rx_late",
    "rx_duplicate",
    "rx_malformed",
    "tx_packets",
    "tx_errors",
    "concealed_frames",
    "playout_underruns",
)


@dataclass(frozen=True)
class Load:
    """What both sides counted."""

    mode: str
    calls: int
    seconds: int
    sipp: Counters
    core: dict[str, int]  # sums of the calls' own counters
    engine: dict[str, float]
    kernel_drops: int  # at SIPp's media socket, read while calls were up
    cpu_s: float  # of the core's process
    real_time: bool  # core's media thread and SIPp had real-time priority

    def problems(self) -> list[str]:
        """Why this run does not hold; empty when nothing was lost."""
        expected = self.calls * self.seconds * 50
        core, sipp = self.core, self.sipp
        found = [
            f"the core counts {name} = {core[name]}"
            for name in ("rx_lost", "rx_late", "rx_malformed", "tx_errors")
            if core[name]
        ]
        if sipp.successful != self.calls:
            found.append(f"SIPp: {sipp.successful} of {self.calls} calls were successful")
        if self.mode == "echo":
            if sipp.rtp_echoed != core["tx_packets"]:
                found.append(f"core sent {core['tx_packets']}, SIPp got {sipp.rtp_echoed}")
            # The echo of a call's last packets may arrive after its BYE.
            if not 0 <= sipp.rtp_echoed - core["rx_packets"] <= 2 * self.calls:
                found.append(f"SIPp sent {sipp.rtp_echoed}, core got {core['rx_packets']}")
        elif sipp.rtp_sent != core["rx_packets"]:
            found.append(f"SIPp sent {sipp.rtp_sent}, core got {core['rx_packets']}")
        for name in ("tx_packets", "rx_packets"):
            if core[name] < expected:
                found.append(f"{name} = {core[name]}, at least {expected} expected")
        if self.mode == "echo" and self.kernel_drops:
            found.append(f"the kernel dropped {self.kernel_drops} packets at SIPp's socket")
        return found


def write_tone(directory: Path) -> Path:
    """The A-law file that SIPp streams: whole 20 ms frames of a melody."""
    path = directory / "melody.al"
    path.write_bytes(audio.encode(audio.melody((440, 620, 910), 0.5), audio.A_LAW))
    return path


def may_real_time() -> bool:
    """Whether real-time scheduling is allowed here.

    Where it is, core and SIPp get it, as the service's unit gives it to the core: what else runs on a
    machine with two cores must not decide whether SIPp empties its one socket in time.
    """
    return (
        subprocess.run(["chrt", "--fifo", "50", "true"], stderr=subprocess.DEVNULL).returncode == 0
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(directory: Path, calls: int, seconds: int, mode: str) -> Load:
    """One run; the calls are all up together for `seconds`."""
    real_time = may_real_time()
    core = LocalCore(directory, max_calls=calls + 10, media_priority=50 if real_time else None)
    rate = 25
    whole = seconds + -(-calls // rate)  # the first call waits for the last
    expand = {"file": str(write_tone(directory))} if mode == "stream" else None
    began = cpu_seconds(core.process.pid)
    caller = Sipp(
        f"load_{mode}",
        directory / "sipp",
        remote=core.sip,
        calls=calls,
        rate=rate,
        timeout_s=whole + 20,
        user="answer",
        echo=mode == "echo",
        count_rtp=True,
        real_time=real_time,
        extra=["-d", str(whole * 1000)],
        expand=expand,
    )
    try:
        drops = 0
        while caller.process.alive:
            drops = max(drops, udp_drops(caller.media_port))
            time.sleep(0.25)
        counters = caller.finish()
        eventually("all calls ended", lambda: len(core.events("CallEnded")) == calls, 10)
        cpu = cpu_seconds(core.process.pid) - began
        engine = core.stats()
    finally:
        caller.stop()
        core.stop()
    ended = [event["stats"] for event in core.events("CallEnded")]
    sums = {name: sum(int(stats[name]) for stats in ended) for name in _SUMMED}
    engine.pop("event")
    return Load(mode, calls, seconds, counters, sums, engine, drops, cpu, real_time)


def table(load: Load) -> str:
    """The figures and where each comes from."""
    frames = load.core["rx_packets"] + load.core["tx_packets"]
    priority = "real-time" if load.real_time else "normal"
    lines = [
        f"{load.calls} calls x {load.seconds} s, mode {load.mode}, {priority} priority",
        f"  core, sum of all calls   {load.core}",
        f"  core, engine             {load.engine}",
        f"  SIPp                     {asdict(load.sipp)}",
        f"  kernel, SIPp's socket    {load.kernel_drops} dropped"
        + (" (SIPp does not read in this mode)" if load.mode == "stream" else ""),
        f"  core CPU                 {load.cpu_s:.1f} s"
        f" = {load.cpu_s / max(frames / 2, 1) * 1e6:.1f} us a call and frame",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="SIPp calls with RTP against the core.")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--mode", choices=("echo", "stream"), default="echo")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hil-load-") as directory:
        load = run(Path(directory), options.calls, options.seconds, options.mode)
    print(table(load))
    if options.json:
        options.json.write_text(json.dumps(asdict(load), indent=2) + "\n", encoding="utf-8")
    problems = load.problems()
    print("\n".join(problems) if problems else "0 lost, in the core's counters and in SIPp's")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
