# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge calls``: accounts that real conversations left, listed and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voice_edge import cli
from voice_edge.calls import drawn

from .fakes import FakeCall, Script, down
from .stage import Stage


def config(folder: Path, recording: str = '[recording]\ndir = "rec"') -> str:
    path = folder / "agent.toml"
    servers = "".join(
        f'[{name}]\nurl = "http://127.0.0.1:9"\nmodel = "m"\n{more}\n'
        for name, more in (("llm", ""), ("tts", 'voice = "v"'), ("stt", ""))
    )
    path.write_text(f'[agent]\nsystem_prompt = "Help."\n{servers}{recording}\n')
    return str(path)


def a_call(folder: Path) -> Path:
    """Two questions, of which the second gets an apology."""
    (folder / "rec").mkdir()
    stage = Stage("It is noon.", Script(fails=down("llm")))
    stage.recording = str(folder / "rec" / "a.wav")

    async def caller(call: FakeCall) -> None:
        await call.hears_end()
        for text in ("What time is it?", "And \x1b[31mnow?"):
            await call.says(text)
            await call.hears_end()

    stage.play(caller)
    return folder / "rec" / "a.wav.json"


def test_a_call_is_listed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_call(tmp_path)
    (tmp_path / "rec" / "other.json").write_text("{")
    assert cli.main(["calls", "--config", config(tmp_path), "list"]) == 0
    listed = capsys.readouterr().out
    assert "2 caller, 1 reply, 1 apology  a.wav.json" in listed
    assert len(listed.splitlines()) == 1
    for name in ("7", "a.wav.json", "a.wav"):
        assert cli.main(["calls", "--config", config(tmp_path), "show", name]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("call 7  ")
        assert "\x1b" not in shown
    rows = [line.split()[1] for line in shown.splitlines()[1:] if "█" in line]
    assert rows == ["greeting", "caller", "reply", "caller", "apology"]
    assert shown.count("first token +") == 1


def test_steps_follow_each_other(tmp_path: Path) -> None:
    doc = json.loads(a_call(tmp_path).read_text())
    steps = next(line for line in drawn(doc) if "first token" in line)
    times = [float(word) for word in steps.split() if word.startswith("+")]
    assert len(times) == 5
    assert times == sorted(times)
    assert 0.8 < times[0] < times[-1] < 2.0


def test_bars_lie_within_the_call(tmp_path: Path) -> None:
    doc = json.loads(a_call(tmp_path).read_text())
    for columns in (40, 80, 200):
        bars = [line[18:42] for line in drawn(doc, columns) if "█" in line]
        assert all(set(bar) <= {"·", "█"} and len(bar) == 24 for bar in bars)
    assert bars[0].startswith("█")


def test_what_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_call(tmp_path)
    assert cli.main(["calls", "--config", config(tmp_path), "show", "8"]) == 1
    assert "no call 8" in capsys.readouterr().err
    assert cli.main(["calls", "--config", config(tmp_path, ""), "list"]) == 1
    assert "recording.dir is not set" in capsys.readouterr().err
    assert cli.main(["calls", "--config", str(tmp_path / "none.toml"), "list"]) == 2
