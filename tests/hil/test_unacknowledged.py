# SPDX-License-Identifier: GPL-3.0-or-later
"""An INVITE may come from a forged address and name a victim in its SDP: without an ACK nothing is sent there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers.datagrams import Datagrams, status_of


def test_no_media_and_no_recording_before_the_ack(tmp_path: Path) -> None:
    core = LocalCore(tmp_path, record=tmp_path / "wav")
    try:
        with (
            Datagrams(core.sip) as caller,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim,
        ):
            victim.bind(("127.0.0.1", 0))
            victim.settimeout(1.5)
            port = victim.getsockname()[1]
            answer = caller.answer_to(
                caller.invite(user="answer", call_id="forged@127.0.0.1", rtp_port=port)
            )
            assert answer is not None
            assert status_of(answer) == 200
            with pytest.raises(TimeoutError):
                victim.recv(2048)
    finally:
        core.process.stop(5)
    assert all(path.stat().st_size <= 44 for path in (tmp_path / "wav").rglob("*.wav*"))
