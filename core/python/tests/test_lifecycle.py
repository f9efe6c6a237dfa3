# SPDX-License-Identifier: GPL-3.0-or-later
"""Start and stop: nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopback import Pair, StartEngine, collect, sine, soon
from voicecore import CallEnded, Engine, EngineConfig, SignallingError, VoicecoreError

EXAMPLE = Path(__file__).parent.parent / "examples" / "echo.py"


def footprint() -> tuple[int, int]:
    """Open descriptors and threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def loopback_config(**settings: object) -> EngineConfig:
    return EngineConfig(**{"bind": "127.0.0.1", "sip_port": 0, **settings})  # type: ignore[arg-type]


def complete_wavs(folder: Path) -> list[Path]:
    """The recordings, each with a header that fits its length; nothing half-written beside them."""
    assert not list(folder.glob("*.part"))
    wavs = sorted(folder.glob("*.wav"))
    for wav in wavs:
        data = wav.read_bytes()
        assert int.from_bytes(data[4:8], "little") == len(data) - 8
        assert len(data) > 44 + 1600
    return wavs


async def settled(before: tuple[int, int]) -> tuple[int, int]:
    """The footprint, once threads that have ended are gone from /proc."""
    for _ in range(50):
        if footprint() == before:
            break
        await asyncio.sleep(0.02)
    return footprint()


async def test_stop_with_calls_up(tmp_path: Path) -> None:
    before = footprint()
    caller = Engine(loopback_config(recording_dir=tmp_path))
    callee = Engine(loopback_config(recording_dir=tmp_path))
    async with caller, callee:
        pair = Pair(caller, callee)
        calls = [await pair.connect() for _ in range(3)]
        for out, _ in calls:
            out.play(sine(400, 5), 8000, 1)
        await asyncio.sleep(0.2)
        reading = [asyncio.create_task(collect(call)) for both in calls for call in both]
        begun = time.monotonic()
        await callee.stop()
        assert time.monotonic() - begun < 3.5
        await caller.stop()
    for events in await soon(asyncio.gather(*reading)):
        assert isinstance(events[-1], CallEnded)
    assert callee.stats().calls_active == 0
    assert callee.stats().calls_total == 3
    assert len(complete_wavs(tmp_path)) == 6
    del pair, calls, reading, caller, callee, out, _
    assert await settled(before) == before


async def test_an_engine_is_left_running_and_forgotten() -> None:
    before = footprint()
    engine = Engine(loopback_config())
    await engine.start()
    loop = asyncio.get_running_loop()
    loop.remove_reader(engine._fd)  # the loop refers to the engine by it
    engine._loop = None
    del engine
    assert await settled(before) == before


async def test_start_is_cancelled() -> None:
    before = footprint()
    engine = Engine(loopback_config())
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    del engine, starting
    assert await settled(before) == before


async def test_again_and_again() -> None:
    for _ in range(5):
        async with Engine(loopback_config()) as engine:
            host, port = engine.sip_address
            assert host == "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((host, port))  # free again
        await engine.stop()  # twice is allowed


async def test_engines_come_and_go_beside_one_that_stays(start_engine: StartEngine) -> None:
    stays = await start_engine()
    for _ in range(6):
        async with Engine(loopback_config()) as engine:
            out, into = await Pair(stays, engine).connect()
            uri = Pair(stays, engine).uri()
            into.hangup()
            await soon(collect(out))
        with pytest.raises(SignallingError) as gone:
            await soon(stays.dial(uri))
        assert gone.value.status == 503


async def test_incoming_ends_with_the_engine() -> None:
    engine = Engine(loopback_config())
    await engine.start()

    async def serve() -> int:
        return len([call async for call in engine.incoming()])

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    await engine.stop()
    assert await soon(serving) == 0


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
async def test_a_port_in_use_is_named_with_a_remedy(kind: socket.SocketKind) -> None:
    before = footprint()
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        port = holder.getsockname()[1]
        engine = Engine(loopback_config(sip_port=port))
        with pytest.raises(SignallingError) as taken:
            await engine.start()
    assert taken.value.code == "engine.port_in_use"
    assert f"127.0.0.1:{port}" in str(taken.value)
    assert "sip_port" in str(taken.value)
    del engine, taken
    assert await settled(before) == before


async def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(SignallingError) as other:
        await Engine(loopback_config(bind="192.0.2.1")).start()
    assert other.value.code == "engine.address_not_available"


async def test_wrong_order() -> None:
    engine = Engine(loopback_config())
    with pytest.raises(VoicecoreError) as early:
        _ = engine.sip_address
    assert early.value.code == "engine.not_running"
    with pytest.raises(VoicecoreError) as dialled:
        await engine.dial("sip:127.0.0.1:9")
    assert dialled.value.code == "engine.not_running"
    await engine.start()
    with pytest.raises(VoicecoreError) as twice:
        await engine.start()
    assert twice.value.code == "engine.already_running"
    await engine.stop()
    with pytest.raises(VoicecoreError):
        await engine.dial("sip:127.0.0.1:9")


def test_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def both_ends() -> CallEnded:
        async with Engine(loopback_config()) as caller, Engine(loopback_config()) as callee:
            out, into = await Pair(caller, callee).connect()
            out.hangup()
            end = (await soon(collect(into)))[-1]
            assert isinstance(end, CallEnded)
            return end

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(both_ends()).by_remote


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_the_example_ends_cleanly(signum: signal.Signals, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    command = [sys.executable, str(EXAMPLE), "--sip-port", "0", "--play", "tone"]
    command += ["--record", str(tmp_path), "--stats-json", str(stats)]
    example = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert example.stdout is not None
    try:
        line = (await soon(example.stdout.readline())).decode()
        async with Engine(loopback_config()) as engine:
            call = await soon(engine.dial(f"sip:100@{line.split()[-1]}"))
            await asyncio.sleep(0.3)
            example.send_signal(signum)
            assert isinstance((await soon(collect(call)))[-1], CallEnded)
        await soon(example.stdout.read())
        assert await soon(example.wait()) == 0
    finally:
        if example.returncode is None:
            example.kill()
    result = json.loads(stats.read_text(encoding="utf-8"))
    assert result["calls_ended"] == 1
    assert result["calls"]["tx_packets"] > 5
    assert len(complete_wavs(tmp_path)) == 1
