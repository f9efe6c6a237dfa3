# SPDX-License-Identifier: GPL-3.0-or-later
"""What the whole agent makes of a line that falls silent, and what it writes down of a call's media."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.drivers.agent import LocalAgent
from hil.peers import audio
from hil.peers.datagrams import Datagrams
from hil.peers.dialog import Dialog
from hil.peers.models import Models
from hil.peers.process import eventually
from hil.peers.script import ScriptEnd, Talker
from hil.test_rtp_rows import receiver_report, report_block

TYPED = "86428642"


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as servers:
        yield servers


@pytest.fixture
def agent(tmp_path: Path, models: Models) -> Iterator[LocalAgent]:
    agent = LocalAgent(tmp_path, models.url, more="[media]\ntimeout_s = 2.0\n")
    yield agent
    agent.process.stop(5)


def account(agent: LocalAgent) -> tuple[str, dict[str, Any]]:
    """The JSON beside the only recording."""

    def look() -> Path | None:
        return next(agent.recordings.glob("*.json"), None)

    found = eventually("the account of the call", look, 10)
    assert isinstance(found, Path)
    text = found.read_text(encoding="utf-8")
    return text, json.loads(text)


def test_the_agent_hangs_up_on_silence_scores_the_call_and_keeps_no_key(agent: LocalAgent) -> None:
    with Datagrams(agent.wait_ready()) as sip, ScriptEnd() as rtp:
        dialog = Dialog(sip, "silence", words="agent", rtp_port=rtp.port)
        talker = Talker()
        packets = list(talker.say(list(audio.tone(440, 1.0))))
        for digit in TYPED:
            packets += talker.press(digit, 0.06, gap=0.04)
        rtp.run([*packets, *talker.say([0] * 1600)], dialog.remote_rtp)
        ours = rtp.rtp()
        about = report_block(
            ours[0].ssrc, fraction=10, lost=3, highest=ours[-1].sequence, jitter=40
        )
        host, port = dialog.remote_rtp
        rtp.send(receiver_report(about), (host, port + 1), rtcp=True)
        silent = time.monotonic()
        bye = None
        while bye is None and time.monotonic() - silent < 8:
            message = sip.receive(0.5)
            if message is not None and message.startswith(b"BYE"):
                bye = message
        assert bye is not None, "the agent holds a dead line"
        assert 1.5 < time.monotonic() - silent < 5
        copied = [
            line
            for line in bye.split(b"\r\n")
            if line.split(b":")[0] in (b"Via", b"From", b"To", b"Call-ID", b"CSeq")
        ]
        sip.send(b"\r\n".join([b"SIP/2.0 200 OK", *copied, b"Content-Length: 0", b"", b""]))
        text, document = account(agent)
        stats = document["call"]["stats"]
        assert document["call"]["by_remote"] is False
        assert stats["rx_lost"] == 0
        assert stats["mos_rx"] == pytest.approx(4.4, abs=0.3)
        assert stats["remote_lost"] == 3
        assert 3.5 < stats["mos_tx"] < 4.4
        assert "media_timeout" in agent.log()
        for written in (text, agent.log()):
            assert "Dtmf" not in written
            assert "digit" not in written
            assert TYPED not in written
