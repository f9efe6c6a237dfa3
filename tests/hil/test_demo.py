# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo as a user runs it, the stand-ins with their real models, loopcall against SIPp."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import uuid
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import aiohttp
import numpy as np
import pytest

from voice_edge.demo import recogniser, speech
from voice_edge.demo.dialogue import LINES
from voice_edge.demo.wer import WordErrors, word_errors
from voice_edge.loopcall import measure, wav
from voice_edge.loopcall.caller import Caller
from voice_edge.loopcall.g711 import Pcm
from voice_edge.loopcall.rtp_peer import RATE

STARTED_S = 120.0
MARK = "VOICE_EDGE_TEST_RUN"


class Run:
    """A program whose descendants can be told from all others, wherever they went."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, MARK: self.mark, "PYTHONUNBUFFERED": "1"},
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, timeout_s: float = STARTED_S) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.text():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, f"no {words!r} in\n{self.text()}"
            time.sleep(0.02)

    def descendants(self) -> list[int]:
        """Every process of this run that is alive, found by its environment."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and wanted in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.descendants():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def end(self) -> None:
        for pid in self.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


# The stand-ins


@pytest.fixture(scope="module")
def standins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("standins")
    run = Run(["voice_edge_standins", "--port-file", str(folder / "port")], folder / "log")
    run.wait_for("stand-ins listen on ")
    yield f"http://127.0.0.1:{int((folder / 'port').read_text())}"
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(10) == 0, run.text()
    assert not (folder / "port").exists()
    assert "Traceback" not in run.text(), run.text()


async def test_recorded_speech_is_recognised(standins: str) -> None:
    voices = speech.load([line.sound for line in LINES])
    errors = WordErrors(0, 0)
    async with aiohttp.ClientSession() as session:
        for line in LINES:
            text = await recogniser.transcribe(
                session, standins, "whisper-tiny.en", voices[line.sound]
            )
            errors += word_errors(line.text, text)
    assert errors.rate <= 0.1


async def test_what_is_spoken_can_be_understood(standins: str) -> None:
    said = "Please stay on the line. The engineer will bring a new telephone system."
    body = {"model": "joe-us-piper", "input": said, "response_format": "wav"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{standins}/v1/audio/speech", json=body) as response:
            assert response.status == 200
            with wave.open(await _buffered(response)) as file:
                assert file.getframerate() == 22050
                assert 2.0 < file.getnframes() / 22050 < 8.0
        body["response_format"] = "pcm"
        async with session.post(f"{standins}/v1/audio/speech", json=body) as response:
            pcm = await response.read()
            assert response.headers["X-Sample-Rate"] == "22050"
        text = await recogniser.transcribe(session, standins, "whisper-tiny.en", _to_8k(pcm))
    assert word_errors(said, text).rate <= 0.2, text


async def _buffered(response: aiohttp.ClientResponse) -> IO[bytes]:
    return io.BytesIO(await response.read())


def _to_8k(pcm: bytes) -> Pcm:
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
    # Good enough for a recogniser: a short mean against aliases, then straight lines.
    smooth = np.convolve(samples, np.ones(3) / 3, mode="same")
    places = np.arange(0, len(samples) - 1, 22050 / RATE)
    out: Pcm = np.interp(places, np.arange(len(samples)), smooth).astype(np.int16)
    return out


async def test_a_client_that_leaves_does_not_hold_up_the_next(standins: str) -> None:
    long = {"model": "joe-us-piper", "input": "This is one sentence. " * 60}
    short = {"model": "joe-us-piper", "input": "Hello.", "response_format": "pcm"}
    async with aiohttp.ClientSession() as session:
        response = await session.post(
            f"{standins}/v1/audio/speech", json=long | {"response_format": "pcm"}
        )
        await response.content.readany()
        response.close()
        begun = time.monotonic()
        async with session.post(f"{standins}/v1/audio/speech", json=short) as answer:
            assert await answer.read()
    # The whole of the long text takes over ten times as long as a sentence or two.
    assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.05, 1.0])
def test_standins_end_while_they_load(tmp_path: Path, number: signal.Signals, delay: float) -> None:
    run = Run(["voice_edge_standins", "--port-file", str(tmp_path / "port")], tmp_path / "log")
    try:
        time.sleep(delay)
        run.process.send_signal(number)
        run.process.wait(5)
        assert run.gone_within(1)
        assert not (tmp_path / "port").exists()
    finally:
        run.end()


# The caller


async def test_the_caller_and_sipp_understand_each_other(tmp_path: Path) -> None:
    port = 25_060 + os.getpid() % 500 * 4
    peer = await asyncio.create_subprocess_exec(
        *("sipp", "-sn", "uas", "-i", "127.0.0.1", "-p", str(port), "-rtp_echo", "-m", "1"),
        *("-mp", str(port + 2_002), "-nostdin"),
        stdout=asyncio.subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        await asyncio.sleep(0.5)
        voice = speech.load(["tt-weasels"])["tt-weasels"]
        async with Caller(("127.0.0.1", port)) as caller:
            await caller.dial(f"sip:service@127.0.0.1:{port}")
            spoken = await caller.say(voice)
            await asyncio.sleep(0.3)
        assert 180 in caller.progress
        assert await asyncio.wait_for(peer.wait(), 5) == 0
    finally:
        if peer.returncode is None:
            peer.kill()
            await peer.wait()
    sound = measure.heard(caller.rtp.arrivals)
    first = measure.first_audible_after(sound, 0)
    assert first is not None
    assert 0 <= (first - measure.first_speech_ns(spoken)) / 1e6 < 20, "the echo is immediate"
    assert caller.rtp.stats.lost == 0
    times = [frame.at_ns for frame in caller.rtp.departures]
    drift = (times[-1] - times[0]) / 1e6 - 20 * (len(times) - 1)
    assert abs(drift) < 20, "the clock is absolute"


# The whole


def test_the_demo_holds_its_conversation(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    run = Run(["voice_edge", "demo", "--out", str(out)], tmp_path / "log")
    try:
        code = run.process.wait(240)
        assert code == 0, run.text()
        assert run.gone_within(1)
    finally:
        run.end()
    report = json.loads((out / "report.json").read_text())
    assert report["ok"]
    turns = report["turns"]
    assert len(turns) == len(LINES)
    assert all(0.3 < turn["reply_s"] < 10 for turn in turns)
    assert all(turn["answer"] for turn in turns)
    (cut,) = [turn for turn in turns if turn["interrupts"]]
    # The promise of 200 ms is test_barge_in.py's; here the models load the same cores.
    assert max(cut["silence_s"], cut["stopped_s"]) <= 0.3
    assert report["packets"]["caller"]["lost"] == 0
    assert report["packets"]["agent"]["rx_lost"] == 0
    assert all(errors["rate"] <= 0.2 for errors in report["word_errors"].values())
    assert len(wav.read(out / "call.wav")) == 2
    left = {path.name for path in out.iterdir()}
    assert left == {"call.wav", "caller.wav", "report.json", "standins.log", "agent.log"}
    for log in ("standins.log", "agent.log"):
        text = (out / log).read_text().lower()
        assert "weasel" not in text, "what was said is no matter for logs"
        assert "traceback" not in text, text


MOMENTS = (
    ("", 0.3),  # imports
    ("starting the model servers", 0.5),
    ("starting the agent", 0.2),
    ("the agent has picked up", 0.0),
    ("caller says", 1.0),
    ("the agent answers", 0.5),
)


@pytest.mark.parametrize(("words", "delay"), MOMENTS, ids=lambda value: str(value) or "start")
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, words: str, delay: float) -> None:
    out = tmp_path / "demo"
    run = Run(["voice_edge", "demo", "--out", str(out)], tmp_path / "log")
    try:
        if words:
            run.wait_for(words)
        time.sleep(delay)
        os.kill(run.process.pid, signal.SIGINT)
        begun = time.monotonic()
        assert run.process.wait(10) in (130, -signal.SIGINT), run.text()
        assert time.monotonic() - begun < 6
        assert run.gone_within(0.5), run.descendants()
        # While modules are imported nobody catches it; afterwards it must not look like a fault.
        assert not words or "Traceback" not in run.text(), run.text()
    finally:
        run.end()
    left = {path.name for path in out.iterdir()} if out.exists() else set()
    assert left <= {"standins.log", "agent.log"}, "no half-written recording, no working folder"


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    run = Run(["voice_edge", "demo", "--out", str(out)], tmp_path / "log")
    try:
        run.wait_for("the agent has picked up")
        os.kill(run.process.pid, signal.SIGINT)
        run.wait_for("SIGINT: ending")
        begun = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.process.pid, signal.SIGINT)
        assert run.process.wait(5) == 130
        assert time.monotonic() - begun < 1.0
        assert run.gone_within(0.5), run.descendants()
    finally:
        run.end()
    assert {path.name for path in out.iterdir()} <= {"standins.log", "agent.log"}


def test_a_killed_demo_takes_its_children_along(tmp_path: Path) -> None:
    run = Run(["voice_edge", "demo", "--out", str(tmp_path / "demo")], tmp_path / "log")
    try:
        run.wait_for("the agent has picked up")
        assert len(run.descendants()) >= 3
        run.process.kill()
        assert run.gone_within(6), run.descendants()
    finally:
        run.end()


def test_a_missing_voice_is_explained(tmp_path: Path) -> None:
    nothing = {**os.environ, "VOICE_EDGE_SPEECH": str(tmp_path)}
    command = [sys.executable, "-m", "voice_edge", "demo", "--out", str(tmp_path / "demo")]
    run = subprocess.run(command, env=nothing, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "apt-get install asterisk-core-sounds-en-wav" in run.stderr
    assert "Traceback" not in run.stderr
