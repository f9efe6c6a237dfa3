# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's parts that need neither models nor a call."""

from __future__ import annotations

import os
import tomllib
import wave
from pathlib import Path
from typing import Any

import pytest

from voice_edge import toml_out
from voice_edge.demo import dialogue, speech, stage
from voice_edge.demo.problems import DemoError
from voice_edge.demo.wer import WordErrors, word_errors
from voice_edge.settings import load
from voice_edge_standins.script import parse


@pytest.mark.parametrize(
    ("said", "recognised", "errors", "words"),
    [
        ("Weasels have eaten it.", "weasels HAVE eaten it", 0, 4),
        ("one two three", "one three", 1, 3),
        ("one two three", "one two two three", 1, 3),
        ("one two three", "one four three", 1, 3),
        ("I’m here", "I'm here!", 0, 2),
        ("one two", "", 2, 2),
        ("", "one", 1, 0),
        ("a b c d", "b c d a", 2, 4),
    ],
)
def test_word_errors(said: str, recognised: str, errors: int, words: int) -> None:
    assert word_errors(said, recognised) == WordErrors(errors, words)


def test_rates() -> None:
    assert (WordErrors(1, 4) + WordErrors(1, 4)).rate == 0.25
    assert (WordErrors(0, 0).rate, WordErrors(2, 0).rate) == (0.0, 1.0)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"a": 1, "b": True, "c": 0.5, "d": [1, 2], "e": [], "f": 'q"\\\n\t\x7fµ'},
        {"x": 1, "t": {"y": 2, "u": {"z": "3"}}},
        {"rows": [{"a": 1, "sub": {"b": 2}}, {"a": 3}], "odd key.": {"é": 1}},
    ],
)
def test_what_is_written_is_read_again(tree: dict[str, Any]) -> None:
    assert tomllib.loads(toml_out.dumps(tree)) == tree


def test_what_toml_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_out.dumps({"a": None})


def test_each_line_of_the_caller_brings_its_own_reply() -> None:
    script = parse(tomllib.loads(toml_out.dumps(dialogue.script())))
    for line in dialogue.LINES:
        assert script.reply(line.text).text == line.reply
    assert script.reply("something else").text not in {line.reply for line in dialogue.LINES}


def test_the_dialogue_has_three_turns_and_an_interruption() -> None:
    calm = [line for line in dialogue.LINES if not line.interrupts]
    assert len(calm) >= 3
    assert len(calm) < len(dialogue.LINES)
    assert not dialogue.LINES[0].interrupts


def recording(path: Path, rate: int = 8000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"\1\0" * 80)


def test_recordings_are_found_below_the_folder_named(tmp_path: Path) -> None:
    recording(tmp_path / "usr/share/hello.wav")
    places = speech.folders({"VOICE_EDGE_SPEECH": str(tmp_path)})
    assert len(speech.load(["hello"], places)["hello"]) == 80


def test_a_missing_recording_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"hello\.wav .*apt-get install.*VOICE_EDGE_SPEECH"):
        speech.load(["hello"], [tmp_path])


def test_a_recording_of_another_format_is_refused(tmp_path: Path) -> None:
    recording(tmp_path / "hello.wav", rate=16000)
    with pytest.raises(DemoError, match="8000 Hz"):
        speech.load(["hello"], [tmp_path])


def test_the_settings_of_a_run_are_valid_and_point_to_this_run(tmp_path: Path) -> None:
    tree = stage.settings(stage.default_config(), "http://127.0.0.1:4711", tmp_path)
    file = tmp_path / "agent.toml"
    file.write_text(toml_out.dumps(tree))
    settings = load(file)
    assert settings.sip.bind == "127.0.0.1"
    assert settings.recording.dir == tmp_path
    assert {settings.llm.url, settings.tts.url, settings.stt.url} == {"http://127.0.0.1:4711"}
    first, last = settings.sip.rtp_ports
    assert first % 2 == 0
    assert last - first >= 2 * settings.sip.max_calls


def test_settings_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"nowhere\.toml"):
        stage.settings(tmp_path / "nowhere.toml", "http://127.0.0.1:1", tmp_path)


async def test_the_working_folder_goes_with_the_stage(tmp_path: Path) -> None:
    async with stage.Stage(tmp_path / "out") as made:
        assert made.recordings.is_dir()
    assert list((tmp_path / "out").iterdir()) == []


async def test_what_a_killed_demo_left_is_removed(tmp_path: Path) -> None:
    no_process = 2**22 + 1  # over the kernel's largest
    (tmp_path / f".run-{no_process}-old" / "recordings").mkdir(parents=True)
    of_another = tmp_path / f".run-{os.getppid()}-now"
    of_another.mkdir()
    async with stage.Stage(tmp_path):
        pass
    assert os.listdir(tmp_path) == [of_another.name]


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(DemoError, match="--out"):
        async with stage.Stage(tmp_path / "out"):
            pass


async def test_recordings_stay_where_the_demo_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with stage.Stage(Path("out/demo")) as there:
        assert there.recordings.is_absolute()
        assert there.recordings.is_relative_to(tmp_path / "out/demo")
