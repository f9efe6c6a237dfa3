# SPDX-License-Identifier: GPL-3.0-or-later
"""``[media.gain]`` and ``[media.mix]``: what is wrong is named, and what reaches the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_edge.core_rules import check_core
from voice_edge.service import engine_options
from voice_edge.settings import SettingsError, load, loads

from .test_settings import MINIMAL, problems

GIVEN = """
[media]
chunk_ms = 100
echo_guard = true
noise_suppression = true
[media.gain]
enabled = true
target_dbov = -20
max_db = 12
[media.mix]
voice_db = -3
background = "noise"
background_db = -6
duck_db = -9
"""


@pytest.mark.parametrize(
    ("table", "line", "key"),
    [
        ("gain", "target_dbov = -5", "media.gain.target_dbov"),
        ("gain", "max_db = 31", "media.gain.max_db"),
        ("gain", "enabled = 1", "media.gain.enabled"),
        ("mix", "duck_db = 3", "media.mix.duck_db"),
        ("mix", "voice_db = nan", "media.mix.voice_db"),
        ("mix", 'background = "no/such.wav"', "media.mix.background"),
    ],
)
def test_what_cannot_be_is_named(table: str, line: str, key: str) -> None:
    assert list(problems(f"{MINIMAL}[media.{table}]\n{line}")) == [key]


def test_the_engine_is_told() -> None:
    names = ["gain", "gain_target_dbov", "gain_max_db", "voice_level_db", "background"]
    names += ["background_level_db", "duck_db", "chunk_ms", "echo_guard", "noise_suppression"]
    options = engine_options(loads(MINIMAL + GIVEN))
    assert [options[n] for n in names] == [
        True,
        -20.0,
        12.0,
        -3.0,
        "noise",
        -6.0,
        -9.0,
        100,
        True,
        True,
    ]


def test_portions_that_are_not_whole_frames_are_named_by_check(tmp_path: Path) -> None:
    pytest.importorskip("voicecore")
    file = tmp_path / "s.toml"
    file.write_text(MINIMAL + "[media]\nchunk_ms = 50\n")
    with pytest.raises(SettingsError) as caught:
        check_core(load(file), file)
    (problem,) = caught.value.problems
    assert problem.key == "media.chunk_ms"
    assert list(problems(f"{MINIMAL}[media]\nchunk_ms = 500")) == ["media.chunk_ms"]


def test_a_background_is_looked_for_beside_the_settings_and_read_by_check(tmp_path: Path) -> None:
    pytest.importorskip("voicecore")
    (tmp_path / "hall.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    file = tmp_path / "s.toml"
    file.write_text(MINIMAL + '[media.mix]\nbackground = "hall.wav"\n')
    settings = load(file)
    assert settings.media.mix.background == str(tmp_path / "hall.wav")
    with pytest.raises(SettingsError) as caught:
        check_core(settings, file)
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("media.mix.background", len(MINIMAL.splitlines()) + 2)
    assert "hall.wav: no audio" in problem.what
