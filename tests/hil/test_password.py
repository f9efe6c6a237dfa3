# SPDX-License-Identifier: GPL-3.0-or-later
"""A password that changes while calls are up: registered anew at once, and no call notices."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hil.drivers.agent import LocalAgent
from hil.drivers.local import LocalCore
from hil.peers.datagrams import Datagrams
from hil.peers.dialog import Dialog
from hil.peers.models import Models
from hil.peers.process import eventually
from hil.peers.registrar import Registrar
from hil.peers.rtp import FRAME, Packet, RtpEnd

CALLS = 10


def gaps(packets: list[Packet]) -> list[str]:
    """Where the stream is not one packet after the other, 20 ms of sound each."""
    found = []
    for before, after in itertools.pairwise(packets):
        steps = after.sequence - before.sequence & 0xFFFF
        samples = after.timestamp - before.timestamp & 0xFFFFFFFF
        if steps != 1 or samples != FRAME or after.ssrc != before.ssrc:
            found.append(f"{steps} packets, {samples} samples after {before.sequence}")
    return found


@pytest.mark.slow
def test_a_password_change_under_ten_calls_leaves_their_audio_without_a_gap(
    start_core: Callable[..., LocalCore], caller_melody: list[int]
) -> None:
    """Three changes, one of them wrong at first, while ten calls are played to and heard."""
    core = start_core()
    callers: list[Datagrams] = []
    ends: list[RtpEnd] = []
    dialogs: list[Dialog] = []
    with Registrar("password 0") as registrar:
        account = {"aor": "sip:+491701234567@example.org", "username": "bot"}
        core.trunk(
            "provider",
            registrar.uri,
            register=True,
            password="password 0",
            options_s=0.5,
            **account,
        )
        eventually("the trunk to be up", lambda: core.events("trunk"), 10)
        try:
            for number in range(CALLS):
                callers.append(Datagrams(core.sip))
                ends.append(RtpEnd(play=caller_melody, ssrc=1000 + number))
                dialogs.append(Dialog(callers[-1], f"p{number}", rtp_port=ends[-1].port))
                ends[-1].send_to(dialogs[-1].remote_rtp)
            eventually("all calls to be heard", lambda: all(len(e.packets) > 50 for e in ends), 10)
            began = time.monotonic()
            for change in range(1, 4):
                registrar.password = f"password {change}"
                if change == 2:
                    core.password("provider", "not this one")
                    time.sleep(0.5)
                before = len(registrar.of("REGISTER"))
                core.password("provider", f"password {change}")

                def registered(before: int = before) -> bool:
                    return any(s.status == 200 for s in registrar.of("REGISTER")[before:])

                eventually(f"change {change} to be registered", registered, 5)
                time.sleep(0.5)
            took = time.monotonic() - began
            for end in ends:
                heard = end.since(began)
                assert gaps(heard) == []
                # The clock of a loaded machine may be late, never fast.
                assert len(heard) >= took / 0.02 * 0.95
            for dialog in dialogs:
                dialog.end()
        finally:
            for end in ends:
                end.stop()
            for caller in callers:
                caller.close()
    eventually("all calls to end", lambda: len(core.events("CallEnded")) >= CALLS, 5)
    for ended in core.events("CallEnded"):
        assert ended["stats"]["rx_lost"] == 0, ended
        assert ended["stats"]["tx_errors"] == 0, ended
    for word in ("password 1", "not this one"):
        assert word not in core.log()


def test_the_agent_takes_a_password_file_that_was_replaced(
    tmp_path: Path, caller_melody: list[int]
) -> None:
    """By itself, without a signal and without a restart; the call that is up goes on."""
    secret = tmp_path / "trunk.password"
    secret.write_text("old\n", encoding="utf-8")
    with Registrar("old") as registrar, Models() as models:
        agent = LocalAgent(
            tmp_path / "agent",
            models.url,
            more=f"""
[[sip.trunk]]
name = "provider"
registrar = "{registrar.uri}"
aor = "sip:+491701234567@example.org"
username = "bot"
password_file = "{secret}"
""",
        )
        try:
            sip = agent.wait_ready()
            eventually("registered", lambda: any(s.status == 200 for s in registrar.seen), 10)
            with Datagrams(sip) as caller, RtpEnd(play=caller_melody) as end:
                with Dialog(caller, "up", words="agent", rtp_port=end.port) as dialog:
                    end.send_to(dialog.remote_rtp)
                    registrar.password = "new"
                    before = len(registrar.of("REGISTER"))
                    (tmp_path / "draft").write_text("new\n", encoding="utf-8")
                    (tmp_path / "draft").replace(secret)

                    def registered() -> bool:
                        return any(s.status == 200 for s in registrar.of("REGISTER")[before:])

                    eventually("the new password to be used", registered, 15)
                    eventually("the agent to be heard", lambda: end.packets, 5)
            assert "trunk provider: registered" in agent.process.tail(500)
            assert "+49170" not in agent.process.tail(500)
        finally:
            agent.process.stop(5)
