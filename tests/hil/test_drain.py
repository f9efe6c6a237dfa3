# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole agent is told to stop with a call up: others are refused, this one goes on to its end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.agent import LocalAgent
from hil.peers.datagrams import Datagrams, field, status_of
from hil.peers.dialog import Dialog
from hil.peers.models import Models


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with Models() as running:
        yield running


@pytest.fixture
def agent(tmp_path: Path, models: Models) -> Iterator[LocalAgent]:
    agent = LocalAgent(tmp_path, models.url, drain_s=60)
    try:
        yield agent
    finally:
        agent.process.stop(0.1, first=signal.SIGKILL)


def test_sigterm_refuses_new_calls_and_waits_for_the_one_that_is_up(agent: LocalAgent) -> None:
    with Datagrams(agent.wait_ready()) as caller:
        dialog = Dialog(caller, "up", words="agent")
        agent.process.send(signal.SIGTERM)
        time.sleep(1)
        for request in (caller.invite(), caller.request("OPTIONS")):
            answer = caller.answer_to(request)
            assert answer
            assert status_of(answer) == 503
            assert int(field(answer, "Retry-After") or 0) > 0
        answer = caller.answer_to(dialog.request("OPTIONS", cseq=2))
        assert answer
        assert status_of(answer) == 200, "the call that is up is not served"
        dialog.end()
    assert agent.process.wait(10) == 0, agent.process.tail()
    assert len(list(agent.recordings.rglob("*.wav"))) == 1


def test_a_second_sigterm_says_bye_at_once(agent: LocalAgent) -> None:
    with Datagrams(agent.wait_ready()) as caller:
        Dialog(caller, "up", words="agent")
        agent.process.send(signal.SIGTERM)
        time.sleep(1)
        assert agent.process.alive
        assert not any(m.startswith(b"BYE ") for m in arrived(caller))
        agent.process.send(signal.SIGTERM)
        assert agent.process.wait(8) == 0, agent.process.tail()
        assert any(m.startswith(b"BYE ") for m in arrived(caller))
    assert len(list(agent.recordings.rglob("*.wav"))) == 1


def arrived(caller: Datagrams) -> list[bytes]:
    found = []
    while (message := caller.receive(0.05)) is not None:
        found.append(message)
    return found
