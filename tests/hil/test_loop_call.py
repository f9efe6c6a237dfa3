# SPDX-License-Identifier: GPL-3.0-or-later
"""The call by which a release proves itself: how far it comes with an agent that works, one that is mute, and none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.agent import STANDINS, LocalAgent
from hil.drivers.local import python_environment
from hil.peers.ports import free_block
from hil.peers.process import Process, eventually
from voice_edge import toml_out
from voice_edge.demo.dialogue import script
from voice_edge.update import loop_call
from voice_edge.update.loop_call import Times


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("standins")
    lines, port = folder / "script.toml", folder / "port"
    lines.write_text(toml_out.dumps(script()), encoding="utf-8")
    words = [sys.executable, "-m", "voice_edge_standins"]
    words += ["--port-file", str(port), "--script", str(lines)]
    process = Process("standins", words, folder, env=python_environment())
    try:
        eventually("the model servers to be ready", port.exists, 60)
        yield f"http://127.0.0.1:{port.read_text().strip()}"
    finally:
        process.stop()


def test_what_the_agent_says_is_said_to_it_and_answered(tmp_path: Path, url: str) -> None:
    agent = LocalAgent(tmp_path, url, names=STANDINS)
    try:
        assert loop_call.place(agent.wait_ready()[1]) == loop_call.REPLIED
        assert "Traceback" not in agent.log()
    finally:
        agent.process.stop()


def test_without_voices_the_call_is_answered_and_no_more(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_block(2)}"
    agent = LocalAgent(tmp_path, nobody, names=STANDINS)
    try:
        port = agent.wait_ready(40)[1]
        assert loop_call.place(port, Times(greeting=2)) == loop_call.ANSWERED
    finally:
        agent.process.stop()


def test_nobody_answers() -> None:
    assert loop_call.place(free_block(2), Times(answer=1)) == loop_call.NOTHING


def test_it_needs_no_numpy() -> None:
    """The bundle has none."""
    program = "import sys; sys.modules['numpy'] = None; import voice_edge.update.loop_call"
    subprocess.run([sys.executable, "-c", program], check=True)
