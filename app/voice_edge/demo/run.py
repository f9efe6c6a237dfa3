# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge demo``: the whole of it, from an empty stage to the summary."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from ..loopcall import wav
from ..loopcall.g711 import Pcm
from . import conversation, recogniser, report, speech, table
from .dialogue import LINES
from .problems import DemoError
from .progress import Progress
from .stage import Stage, default_config

_RECORDING_S = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if every turn was answered, 1 if not, 128 + n after a signal n."""
    parser = argparse.ArgumentParser(
        prog="voice-edge demo",
        description="Hold a conversation on this machine: stand-in model servers, the agent, and a"
        " recorded human voice that calls it by SIP over loopback.",
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="default: out/demo")
    parser.add_argument("--config", type=Path, help="the agent's settings: config/demo.toml")
    options = parser.parse_args(argv)
    try:
        voices = speech.load([line.sound for line in LINES])
        config = options.config or default_config()
        return asyncio.run(_guarded(options.out, config, voices))
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


async def _guarded(out: Path, config: Path, voices: Mapping[str, Pcm]) -> int:
    """Run ``demo`` so that a signal cancels it, and a second one ends everything at once."""
    loop = asyncio.get_running_loop()
    stage = Stage(out)
    work = asyncio.ensure_future(demo(stage, config, voices))
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            stage.kill()
            os._exit(128 + number)
        received.append(number)
        print(f"\n{number.name}: ending the call and all processes", file=sys.stderr, flush=True)
        work.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]


async def demo(stage: Stage, config: Path, voices: Mapping[str, Pcm]) -> int:
    """Hold the conversation and print the summary; returns the exit code. Raises DemoError."""
    progress = Progress()
    models = _model(config)
    async with stage:
        async with progress.step("starting the model servers (recognition, voice, script)"):
            await stage.start_standins()
        async with progress.step("starting the agent"):
            sip = await stage.start_agent(config)
        progress.say(f"calling sip:agent@{sip[0]}:{sip[1]} over UDP, G.711")
        call = await conversation.hold(sip, LINES, voices, progress.say)
        async with progress.step("waiting for the agent's recording"):
            recording = await _recording(stage.recordings)
            timeline = json.loads(recording.with_name(recording.name + ".json").read_text())
        async with progress.step("stopping the agent"):
            await stage.stop_agent()
        channels = wav.read(recording)
        if len(channels) != 2:
            raise DemoError(f"the recording has {len(channels)} channels; 2 are expected")
        async with progress.step("hearing the recording again"):
            async with aiohttp.ClientSession() as session:
                reheard = [
                    await recogniser.transcribe(session, stage.standins_url, models, channel)
                    for channel in channels
                ]
        result = report.make(call, timeline, channels, reheard, len(LINES))
        _save(stage.out, recording, result)
        wav.write(stage.out / "caller.wav", wav.both_directions(call.departures, call.arrivals))
    print()
    print(table.render(result, stage.out))
    return 0 if result["ok"] else 1


def _model(config: Path) -> str:
    """The recogniser's model named in the settings."""
    try:
        return str(tomllib.loads(config.read_text(encoding="utf-8"))["stt"]["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DemoError(f"{config}: stt.model cannot be read: {error}") from error


async def _recording(folder: Path) -> Path:
    """The agent's WAV, once the account of the call lies beside it. Raises DemoError."""
    deadline = time.monotonic() + _RECORDING_S
    while time.monotonic() < deadline:
        if (path := _finished(folder)) is not None:
            return path
        await asyncio.sleep(0.05)
    raise DemoError(
        f"the agent left no recording with its account within {_RECORDING_S:.0f} s of the call"
    )


def _finished(folder: Path) -> Path | None:
    recordings = sorted(folder.rglob("*.wav"))
    return next((p for p in recordings if p.with_name(p.name + ".json").is_file()), None)


def _save(out: Path, recording: Path, result: dict[str, Any]) -> None:
    """Copy the WAV and write the report, each in one step."""
    half = out / f".call.wav.{os.getpid()}.part"
    try:
        shutil.copyfile(recording, half)
        half.replace(out / "call.wav")
        half.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        half.replace(out / "report.json")
    finally:
        half.unlink(missing_ok=True)
