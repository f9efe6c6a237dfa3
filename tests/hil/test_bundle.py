# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen bundle as the image ships it: `voice-edge check` and a call, on a root folder without Python.

Each architecture whose bundle `just bundle` made is tested, one that is not this machine's under QEMU's user
emulation.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bundle.target import Target
from hil.drivers.agent import STANDINS, LocalAgent
from hil.peers.process import Process, eventually
from image.arch import ARCHES
from tools.paths import OUT
from voice_edge.demo import speech
from voice_edge.demo.dialogue import LINES
from voice_edge.demo.wer import word_errors
from voice_edge.loopcall import measure
from voice_edge.loopcall.caller import Caller

pytestmark = pytest.mark.slow

STARTS = 5
START_UP_S = 3.0
"""Longest start-up on this machine's own architecture; it is about 0.2 s where nothing else runs."""
LINE = LINES[0]
BUNDLES = {name: OUT / "bundle" / name / "voice-edge" for name in sorted(ARCHES)}


MADE: list[str | None] = [name for name, path in BUNDLES.items() if path.is_dir()]


@pytest.fixture(scope="module", params=MADE or [None])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    if request.param is None:
        pytest.skip("no bundle was made: `./justw bundle x86_64`")
    if os.geteuid() != 0:
        pytest.skip("needs root: it enters a root folder")
    place = tmp_path_factory.mktemp(request.param)
    return Target(ARCHES[request.param], BUNDLES[request.param], place / "root")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the stand-ins for the model servers."""
    place = tmp_path_factory.mktemp("standins")
    port = place / "port"
    arguments = [sys.executable, "-m", "voice_edge_standins", "--port-file", str(port)]
    process = Process("standins", arguments, place)
    try:
        eventually("the stand-ins to be ready", port.exists, 120)
        yield f"http://127.0.0.1:{int(port.read_text())}"
    finally:
        process.stop(10)


def test_size_and_start_up(target: Target, record_property: Callable[[str, object], None]) -> None:
    files = [path for path in target.bundle.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    seconds = []
    for _ in range(STARTS):
        begun = time.monotonic()
        done = _run(target, ["--version"])
        seconds.append(time.monotonic() - begun)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("voice-edge ")
    middle = statistics.median(seconds)
    print(f"{target.arch.name}: {size / 1e6:.1f} MB in {len(files)} files; start-up {middle:.2f} s")
    record_property("size", size)
    record_property("start_up_s", middle)
    assert size < 80e6
    assert not target.arch.native or middle < START_UP_S


def test_the_demo_is_not_part_of_it(target: Target) -> None:
    done = _run(target, ["demo"])
    assert done.returncode != 0
    assert "checkout" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_and_a_call(target: Target, models: str, tmp_path: Path) -> None:
    def command(arguments: list[str]) -> list[str]:
        return target.command(arguments, shared=tmp_path)

    agent = LocalAgent(tmp_path, models, names=STANDINS, command=command, env=target.environment())
    try:
        sip = agent.wait_ready(60)
        # While it runs, its ports are of no account: any free one is wanted.
        done = _run(target, ["check", "--config", str(agent.config)], shared=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        states = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}
        assert [states[name] for name in ("voicecore", "llm", "tts", "stt")] == ["ok"] * 4, (
            done.stdout
        )
        asyncio.run(_call(sip))
        agent.process.send(signal.SIGTERM)
        assert agent.process.wait(15) == 0, agent.process.tail()
    finally:
        agent.process.stop(5)
    (account,) = agent.recordings.rglob("*.json")
    turns = json.loads(account.read_text())["turns"]
    heard = " ".join(turn["text"] for turn in turns if turn["role"] == "caller")
    assert word_errors(LINE.text, heard).rate <= 0.3, heard
    replies = [turn for turn in turns if turn.get("kind") == "reply"]
    assert replies
    assert all(turn["samples"] > 0 for turn in replies), turns
    (wav,) = agent.recordings.rglob("*.wav")
    assert wav.stat().st_size > 100_000
    assert "Traceback" not in agent.process.stderr()


async def _call(sip: tuple[str, int]) -> None:
    """Hear the greeting out, say a line, hear an answer."""
    voice = speech.load([LINE.sound])[LINE.sound]
    async with Caller(sip) as caller:
        await caller.dial(f"sip:agent@{sip[0]}:{sip[1]}", timeout_s=30)
        assert await caller.hear_speech(caller.answered_ns, 30), "no greeting"
        assert await caller.hear_silence(1.0, 30)
        spoken = await caller.say(voice)
        assert await caller.hear_speech(measure.last_speech_ns(spoken), 60), "no answer"
        assert await caller.hear_silence(1.0, 60)
        await caller.hang_up()


def _run(
    target: Target, arguments: list[str], shared: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        target.command(arguments, shared=shared),
        env=target.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
