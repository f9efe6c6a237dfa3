# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures for Prometheus (text format 0.0.4), and the little of HTTP that serves them.

Everything is counted anyway and put into words when asked. No label tells one caller from another.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .adapters import Pool
from .machine import AgentTurn, CallerTurn, History

# Seconds. Between 0.5 and 2 s a conversation turns from lively to dull: finest there.
BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
STAGES = ("recognition", "first_token", "first_audio", "answer")
_ENGINE = (
    "ticks",
    "late_ticks",
    "rx_packets",
    "rx_lost",
    "tx_packets",
    "tx_errors",
    "events_dropped",
    "sip_malformed",
    "sip_rejected",
)
_REQUEST_S = 5.0
_REQUEST_MAX = 8_192


class Histogram:
    """Counts by upper bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*BUCKETS, None), self._counts, strict=True):
            total += count
            edge = "+Inf" if bound is None else f"{bound:g}"
            yield f'{name}_bucket{{{labels},le="{edge}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


class CallMetrics:
    """What the calls that are over came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.refused: Counter[str] = Counter()  # by the kind of server that was missing
        self.underruns = 0
        self.turns: Counter[str] = Counter()
        self.stages = {stage: Histogram() for stage in STAGES}

    def observe(self, history: History, underruns: int) -> None:
        """Add a call that is over."""
        self.calls += 1
        self.underruns += underruns
        for turn in history.turns:
            if isinstance(turn, AgentTurn):
                if turn.samples:
                    self.turns[str(turn.kind)] += 1
                self._agent(turn)
            else:
                self.turns["caller"] += 1
                self._caller(turn)

    def _caller(self, turn: CallerTurn) -> None:
        for segment in turn.segments:
            self._stage("recognition", segment.end_ns, segment.transcript_ns)

    def _agent(self, turn: AgentTurn) -> None:
        self._stage("first_token", turn.requested_ns, turn.first_token_ns)
        self._stage("first_audio", turn.first_token_ns, turn.first_audio_ns)
        if turn.answers is not None and turn.resumes is None:
            ends = [s.end_ns for s in turn.answers.segments if s.text and s.end_ns is not None]
            self._stage("answer", max(ends, default=None), turn.first_sample_ns)

    def _stage(self, name: str, since_ns: int | None, until_ns: int | None) -> None:
        if since_ns is not None and until_ns is not None and until_ns >= since_ns:
            self.stages[name].observe((until_ns - since_ns) / 1e9)


def exposition(calls: CallMetrics, active: int, pools: Iterable[Pool[Any]], engine: Any) -> str:
    """All figures as Prometheus reads them."""
    lines: list[str] = []

    def family(name: str, kind: str, text: str, samples: Iterable[str]) -> None:
        full = f"voice_edge_{name}"
        lines.append(f"# HELP {full} {text}")
        lines.append(f"# TYPE {full} {kind}")
        lines.extend(samples)

    def counted(name: str, label: str, counts: Counter[str]) -> Iterator[str]:
        return (f'voice_edge_{name}{{{label}="{k}"}} {n}' for k, n in sorted(counts.items()))

    family("calls_active", "gauge", "Calls that are up.", [f"voice_edge_calls_active {active}"])
    family("calls_total", "counter", "Calls that ended.", [f"voice_edge_calls_total {calls.calls}"])
    family(
        "calls_refused_total",
        "counter",
        "Calls no model server could carry.",
        counted("calls_refused_total", "server", calls.refused),
    )
    family("turns_total", "counter", "Turns heard.", counted("turns_total", "kind", calls.turns))
    family(
        "playout_underruns_total",
        "counter",
        "Gaps in the agent's voice.",
        [f"voice_edge_playout_underruns_total {calls.underruns}"],
    )
    stage = "voice_edge_stage_seconds"
    family(
        "stage_seconds",
        "histogram",
        "Latency by stage; answer: from the caller's last speech to the first sample sent.",
        (ln for s, h in calls.stages.items() for ln in h.lines(stage, f'stage="{s}"')),
    )
    members = [m for pool in pools for m in pool.members]
    family(
        "server_up",
        "gauge",
        "Whether the model server works.",
        (f'voice_edge_server_up{{server="{m.label}"}} {int(not m.broken)}' for m in members),
    )
    family(
        "server_requests_total",
        "counter",
        "Requests to the model server.",
        (
            f'voice_edge_server_requests_total{{server="{m.label}"}} {m.client.metrics.requests}'
            for m in members
        ),
    )
    family(
        "server_failures_total",
        "counter",
        "Failed requests, by where they failed.",
        (
            f'voice_edge_server_failures_total{{server="{m.label}",cause="{cause}"}} {n}'
            for m in members
            for cause, n in sorted(m.client.metrics.failures.items())
        ),
    )
    for name in _ENGINE:
        if hasattr(engine, name):
            full = f"engine_{name}_total"
            sample = f"voice_edge_{full} {getattr(engine, name)}"
            family(full, "counter", f"{name} of the core.", [sample])
    return "\n".join(lines) + "\n"


@contextlib.asynccontextmanager
async def serving(bind: str, port: int | None, render: Callable[[], str]) -> Any:
    """Answer ``GET /metrics`` at the address; nothing without a port. Raises OSError."""
    if port is None:
        yield None
        return

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, render))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone or speaks something else
        finally:
            writer.close()

    server = await asyncio.start_server(connection, bind, port, limit=_REQUEST_MAX)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


def _answer(head: bytes, render: Callable[[], str]) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    status, body = b"404 Not Found", b"ask for /metrics\n"
    if len(words) == 3 and words[1].partition(b"?")[0] == b"/metrics":
        if words[0] == b"GET":
            status, body = b"200 OK", render().encode()
        else:
            status, body = b"405 Method Not Allowed", b"GET only\n"
    kind = b"text/plain; version=0.0.4; charset=utf-8"
    return (
        b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
        % (status, kind, len(body), body)
    )
