# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures for Prometheus: what is counted, how it is written, how it is served."""

from __future__ import annotations

import asyncio
import gc
import logging
import re

import pytest

from voice_edge.check import check
from voice_edge.metrics import BUCKETS, CallMetrics, Histogram, exposition, serving
from voice_edge.settings import SettingsError

from .fakes import FakeCall, Script, down
from .stage import Stage
from .test_service import Running, models, settings_for
from .virtual import run

# Exposition format 0.0.4: a comment, or name, labels and value.
LINE = re.compile(r'# (HELP|TYPE) \w+ .+|[a-z_]+(\{(\w+="[^"\\]*",?)+\})? (\d+(\.\d+)?(e[+-]\d+)?)')


def sample(text: str, name: str) -> float:
    found = [ln for ln in text.splitlines() if ln.startswith(f"voice_edge_{name} ")]
    assert len(found) == 1, (name, text)
    return float(found[0].rpartition(" ")[2])


def test_histogram_counts_up_to_each_bound() -> None:
    h = Histogram()
    for seconds in (0.05, 0.06, 2.5, 99.0):
        h.observe(seconds)
    lines = list(h.lines("x", 's="a"'))
    assert len(lines) == len(BUCKETS) + 3
    assert lines[0] == 'x_bucket{s="a",le="0.05"} 1'
    assert lines[1] == 'x_bucket{s="a",le="0.1"} 2'
    assert 'x_bucket{s="a",le="3"} 3' in lines
    assert lines[-3:] == [
        'x_bucket{s="a",le="+Inf"} 4',
        'x_sum{s="a"} 101.610000',
        'x_count{s="a"} 4',
    ]


def test_a_call_that_is_over_is_counted_by_turns_and_stages() -> None:
    stage = Stage("It is noon.", Script(fails=down("llm")))

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        for _ in range(2):
            await call.says("What time is it?")
            await call.hears_end()

    stage.play(caller)
    calls = CallMetrics()
    calls.observe(stage.session.machine.history, 3)
    text = exposition(calls, 2, (), None)
    assert sample(text, "calls_active") == 2
    assert sample(text, "calls_total") == 1
    assert sample(text, "playout_underruns_total") == 3
    assert sample(text, 'turns_total{kind="apology"}') == 1
    assert sample(text, 'turns_total{kind="caller"}') == 2
    assert sample(text, 'stage_seconds_count{stage="recognition"}') == 2
    assert sample(text, 'stage_seconds_count{stage="first_token"}') == 1
    assert sample(text, 'stage_seconds_count{stage="first_audio"}') == 1
    assert sample(text, 'stage_seconds_count{stage="answer"}') == 1
    assert 0.9 < sample(text, 'stage_seconds_sum{stage="answer"}') < 2.0
    for line in text.splitlines():
        assert LINE.fullmatch(line), line


async def get(port: int, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
        (b"GET /metrics?a=b HTTP/1.0\r\n\r\n", "200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"\xff\x00\r\n\r\n", "404 Not Found"),
    ],
)
def test_who_asks_is_answered(request_: bytes, status: str) -> None:
    async def scenario() -> None:
        async with serving("127.0.0.1", 0, lambda: "x 1\n") as at:
            answer = await get(at[1], request_)
        head, _, body = answer.partition("\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status}")
        assert f"Content-Length: {len(body)}" in head
        assert ("x 1\n" in body) is (status == "200 OK")

    run(scenario())


@pytest.mark.parametrize("request_", [b"", b"GET /met", b"a" * 20_000])
def test_who_does_not_ask_is_let_go(request_: bytes) -> None:
    async def scenario() -> None:
        async with serving("127.0.0.1", 0, lambda: "x 1\n") as at:
            try:
                assert "x 1" not in await get(at[1], request_)
            except ConnectionError:
                pass  # closed with something unread
            assert "x 1" in await get(at[1], b"GET /metrics HTTP/1.1\r\n\r\n")

    run(scenario())


def test_the_service_tells_of_its_calls_and_servers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with Running(models, "[metrics]\nport = 0") as r:
            await r.until_ready()
            told = re.search(r"metrics on 127\.0\.0\.1 port (\d+)", caplog.text)
            assert told is not None
            port = int(told[1])
            call = r.engine.rings(FakeCall(1))
            await call.hears_end()
            await call.says("What time is it?")
            await call.hears_end()
            text = await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert sample(text, "calls_active") == 1
            assert sample(text, 'server_up{server="llm"}') == 1
            assert sample(text, 'server_requests_total{server="stt"}') == 1
            assert sample(text, "engine_rx_lost_total") == 0
            call.leaves()
            await asyncio.sleep(1.0)
            text = await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert sample(text, "calls_active") == 0
            assert sample(text, "calls_total") == 1
            assert sample(text, 'turns_total{kind="reply"}') == 1

    run(scenario())
    gc.unfreeze()


def test_a_port_in_use_costs_no_calls(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving("127.0.0.1", 0, lambda: "") as at:
            more = f"[metrics]\nport = {at[1]}"
            async with Running(models, more) as r:
                await r.until_ready()
                call = r.engine.rings(FakeCall(1))
                await call.hears_end()
                found = await check(settings_for(r.server.url, more))
                assert {f.name: f.state for f in found}["metrics"] == "warn"

    run(scenario())
    gc.unfreeze()
    assert "change metrics.port" in caplog.text


def test_a_port_of_sip_is_none_for_metrics() -> None:
    with pytest.raises(SettingsError, match=r"metrics\.port: 5060 is a port of SIP"):
        settings_for("http://127.0.0.1:1", "[metrics]\nport = 5060")
