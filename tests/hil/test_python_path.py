# SPDX-License-Identifier: GPL-3.0-or-later
"""`media.path = "python"`: a call over SIP whose caller is heard by the plain Python path of this checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.agent import STANDINS, LocalAgent
from hil.drivers.local import python_environment
from hil.peers.process import Process, eventually
from tools.paths import ROOT
from voice_edge import toml_out
from voice_edge.demo.dialogue import script
from voice_edge.service import engine_options
from voice_edge.settings import SettingsError, load
from voice_edge.update import loop_call


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    lines, port = tmp_path / "script.toml", tmp_path / "port"
    lines.write_text(toml_out.dumps(script()), encoding="utf-8")
    words = [sys.executable, "-m", "voice_edge_standins"]
    words += ["--port-file", str(port), "--script", str(lines)]
    process = Process("standins", words, tmp_path, env=python_environment())
    try:
        eventually("the model servers to be ready", port.exists, 60)
        yield f"http://127.0.0.1:{port.read_text().strip()}"
    finally:
        process.stop()


def test_a_caller_is_heard_and_answered(tmp_path: Path, url: str) -> None:
    around = python_environment()
    around["PYTHONPATH"] = os.pathsep.join([str(ROOT), around["PYTHONPATH"]])
    more = '[media]\npath = "python"\n[media.gain]\nenabled = true\n'
    agent = LocalAgent(tmp_path / "agent", url, names=STANDINS, more=more, env=around)
    try:
        assert loop_call.place(agent.wait_ready()[1]) == loop_call.REPLIED
        assert "Traceback" not in agent.log()
    finally:
        agent.process.stop()


def test_the_core_only_tells_frames_and_without_a_checkout_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = '[media]\npath = "python"\n'
    agent = LocalAgent(tmp_path, "http://127.0.0.1:9", more=more, start=False)
    options = engine_options(load(agent.config))
    assert (options["delivery"], options["vad"], options["gain"]) == ("frames", False, False)
    monkeypatch.setattr("voice_edge.settings.rules.missing_reference", lambda: "core.reference")
    with pytest.raises(SettingsError, match=r"media\.path.*not found.*\n?.*checkout"):
        load(agent.config)
