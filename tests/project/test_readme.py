# SPDX-License-Identifier: GPL-3.0-or-later
"""What the README shows is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from voice_edge.settings import load

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_its_settings_file_loads(tmp_path: Path) -> None:
    (settings,) = blocks("toml")
    file = tmp_path / "bicycle.toml"
    file.write_text(settings)
    secret = tmp_path / "trunk.password"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    (tmp_path / "recordings").mkdir()
    loaded = load(file)
    assert [trunk.name for trunk in loaded.sip.trunk] == ["provider"]
    assert loaded.stt.url == "http://192.168.1.20:8001"


def test_its_recipes_exist() -> None:
    named = set(re.findall(r"\./justw ([a-z]\w*)", README))
    recipes = set(
        re.findall(r"^([a-z][\w-]*)[^:=\n]*:(?!=)", (ROOT / "Justfile").read_text(), re.MULTILINE)
    )
    assert named
    assert named <= recipes


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_its_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_its_folders_exist() -> None:
    rows = re.findall(r"^\| (`.*?) \|", README, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_its_commands_of_voice_edge_exist() -> None:
    commands = set(re.findall(r"voice-edge (\w+) --config", README))
    shown = subprocess.run(
        [ROOT / ".venv/bin/voice-edge", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert commands == {"run", "check"}
    assert all(command in shown for command in commands)
