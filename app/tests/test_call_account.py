# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call leaves behind: the timeline beside the recording, and a log without a word in it."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from voice_edge.call import CallSession, Servers
from voice_edge.logs import Formatter
from voice_edge.phrases import PhraseCache

from .bench import POLICY
from .fakes import FakeCall, Script, down, now_ns
from .stage import Stage
from .virtual import run


def _timeline(path: Path) -> Any:
    assert not list(path.parent.glob(".*"))
    return json.loads(path.read_text())


def test_timeline_beside_the_recording(tmp_path: Path) -> None:
    stage = Stage("It is noon. Lunch is ready.", "Fine.")
    stage.recording = str(tmp_path / "call.wav")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_something()
        await call.silence(1.0)
        await call.says("Stop")
        await call.hears_end()

    stage.play(caller)
    doc = _timeline(tmp_path / "call.wav.json")
    assert doc["version"] == 1
    assert doc["call"]["status"] == 200
    assert doc["call"]["by_remote"] is True
    assert doc["call"]["stats"]["rx_packets"] == 100
    assert (doc["call"]["stats"]["mos_rx"], doc["call"]["stats"]["mos_tx"]) == (4.3, None)
    assert [(t["role"], t.get("kind")) for t in doc["turns"]] == [
        ("agent", "greeting"),
        ("caller", None),
        ("agent", "reply"),
        ("caller", None),
        ("agent", "reply"),
    ]
    question, reply, stop, answer = doc["turns"][1:]
    assert question["text"] == "What time is it?"
    assert stop["text"] == "Stop"
    assert reply["answers"] == 1
    order = [question["speech_start_ns"], question["speech_end_ns"], question["transcript_ns"]]
    order += [reply["requested_ns"], reply["first_token_ns"], reply["first_audio_ns"]]
    order += [reply["first_sample_ns"], stop["speech_start_ns"], stop["speech_decided_ns"]]
    order += [reply["cut_ns"]]
    order += [reply["heard_until_ns"], stop["speech_end_ns"], answer["requested_ns"]]
    assert order == sorted(order)
    expected = (reply["first_sample_ns"] - question["speech_end_ns"]) / 1e6
    assert reply["latency_ms"] == pytest.approx(expected, abs=0.1)
    assert reply["interrupted"]
    assert not answer["interrupted"]
    assert reply["text"].startswith(reply["heard"])
    assert (tmp_path / "call.wav.json").stat().st_mode & 0o077 == 0


def test_a_line_of_16_khz_gives_the_same_account() -> None:
    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("What time is it?")
        await call.hears_something()
        await call.silence(1.0)
        await call.says("Stop")
        await call.hears_end()

    accounts = []
    for rate in (8_000, 16_000):
        stage = Stage("It is noon. Lunch is ready.", "Fine.")
        stage.rate = rate
        stage.play(caller)
        assert stage.stt.rates == {rate}
        accounts.append(([t.samples for t in stage.agent], stage.said))
    assert accounts[0] == accounts[1]


def test_timeline_is_written_when_the_service_stops_the_session(tmp_path: Path) -> None:
    stage = Stage(Script(["A long answer, a very long one."] * 10))
    stage.recording = str(tmp_path / "call.wav")

    async def scenario() -> None:
        call = FakeCall(recording=stage.recording)
        servers = Servers(stage.llm, stage.tts, stage.stt, PhraseCache(stage.tts, ()))
        task = asyncio.create_task(CallSession(call, servers, POLICY, clock=now_ns).run())
        await asyncio.sleep(1.5)
        await call.says("Tell me")
        await call.hears_something()
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert call.hung_up
        assert (stage.llm.open, stage.tts.open) == (0, 0)

    run(scenario(), sockets=False)
    doc = _timeline(tmp_path / "call.wav.json")
    assert doc["turns"][-1]["heard"]


def test_timeline_that_cannot_be_written_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage("unused")
    stage.recording = str(tmp_path / "gone" / "call.wav")

    async def caller(call: FakeCall) -> None:
        await call.silence(0.5)

    stage.play(caller)
    assert "timeline cannot be written" in caplog.text
    assert "recording.dir" in caplog.text


def test_nothing_said_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stage = Stage(
        "Your balance is banana.",
        Script(["Half a papaya."], fails=down("llm")),
        Script(fails=ValueError("cannot parse: my number is 004930123456")),
        "Bye bye mango.",
        policy=replace(POLICY, max_failures=5),
    )

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        await call.says("My number is 004930123456 and my name is Melchior")
        await call.hears_end()
        for _ in range(3):
            await call.says("My PIN is 8642")
            await call.hears_end()
        stage.stt.fails = RuntimeError("heard Melchior say 8642")
        await call.says("Melchior")
        await call.hears_end()
        stage.tts.fails = lambda text: RuntimeError(f"cannot say {text}")
        stage.stt.fails = None
        await call.says("Once more, 8642")
        await call.hears_end()

    stage.play(caller)
    lines = "\n".join(Formatter(journal=True).format(r) for r in caplog.records)
    assert "call=7" in lines
    assert "RuntimeError" in lines  # faults of ours are told
    for private in ("0049", "8642", "elchior", "banana", "papaya", "mango", "Hello there"):
        assert private not in lines, private


def test_keys_that_were_pressed_are_in_no_account_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = Stage("Thank you.")
    stage.recording = str(tmp_path / "call.wav")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        for digit in "8642":
            call.presses(digit)
        await call.says("That was my code.")
        await call.hears_end()

    stage.play(caller)
    written = (tmp_path / "call.wav.json").read_text()
    assert _timeline(tmp_path / "call.wav.json")["call"]["status"] == 200
    for text in (written, caplog.text):
        assert "Dtmf" not in text
        assert "digit" not in text
