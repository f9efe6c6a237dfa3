# SPDX-License-Identifier: GPL-3.0-or-later
"""B15: session timers (RFC 4028), both roles.

The shortest interval is 90 s, so the calls of this file run side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hil.drivers.local import LocalCore
from hil.peers.datagrams import field, status_of
from hil.peers.phone import Phone, PhoneCall, method_of
from hil.peers.process import eventually

pytestmark = pytest.mark.slow
TIMER = "Supported: timer\r\nRequire: timer\r\nSession-Expires: 90;refresher={}"
WATCHED_S = 100


@dataclass
class Stage:
    """Three calls under way, and when they were answered."""

    core: LocalCore
    mute: PhoneCall  # answers no refresh of ours
    choosy: PhoneCall  # answers the first refresh with 422
    lazy: PhoneCall  # should refresh, and does not
    began: float


def refresh_of(call: PhoneCall) -> list[bytes]:
    """Refreshes that came: re-INVITE or UPDATE, each number once."""
    unique: dict[str, bytes] = {}
    for message in call.seen:
        if method_of(message) in ("INVITE", "UPDATE") and message != call.invite:
            unique.setdefault(field(message, "CSeq") or "", message)
    return list(unique.values())


@pytest.fixture(scope="module")
def stage(start_core: Callable[..., LocalCore]) -> Iterator[Stage]:
    core = start_core(settings={"session_expires_s": 90, "session_timer": "always"})
    with Phone(core.sip) as phone, Phone(core.sip) as choosy_phone:
        for telephone in (phone, choosy_phone):
            telephone.on_invite = lambda call, invite, at=telephone: at.respond(
                invite, "200 OK", call.sdp(), TIMER.format("uac")
            )
        phone.on_reinvite = lambda call, invite: None

        def choose(call: PhoneCall, invite: bytes) -> None:
            if "Min-SE: 120" in invite.decode():
                choosy_phone.respond(
                    invite, "200 OK", call.sdp(), TIMER.format("uac").replace("90", "120")
                )
            else:
                choosy_phone.respond(
                    invite, "422 Session Interval Too Small", headers="Min-SE: 120"
                )

        choosy_phone.on_reinvite = choose
        for telephone in (phone, choosy_phone):
            core.dial(telephone.uri())
            telephone.wait_incoming()
        lazy = phone.new("answer")
        answer = lazy.call("Supported: timer\r\nSession-Expires: 90;refresher=uac")
        assert status_of(answer) == 200
        assert field(answer, "Session-Expires") == "90;refresher=uac"
        yield Stage(core, phone.incoming[0], choosy_phone.incoming[0], lazy, time.monotonic())


def test_an_interval_below_ours_is_refused_with_422(core: LocalCore) -> None:
    with Phone(core.sip) as phone:
        call = phone.new("answer")
        answer = call.call("Supported: timer\r\nSession-Expires: 60")
        assert status_of(answer) == 422
        assert field(answer, "Min-SE") == "90"
        phone.send(call.request("ACK", cseq=call.cseq))


def test_b15_min_se_of_a_refused_refresh_is_adopted_and_the_call_goes_on(stage: Stage) -> None:
    eventually("two refreshes", lambda: len(refresh_of(stage.choosy)) >= 2, WATCHED_S, every_s=0.5)
    first, second = refresh_of(stage.choosy)[:2]
    assert (field(first, "Session-Expires") or "").startswith("90")
    assert (field(second, "Session-Expires") or "").startswith("120")
    assert field(second, "Min-SE") == "120"
    assert 40 < time.monotonic() - stage.began < 60, "refreshed at half of the interval"
    assert not stage.choosy.ended.is_set()


def test_b15_bye_when_the_refresher_is_silent(stage: Stage) -> None:
    """RFC 4028 section 10: BYE the lesser of 32 s and a third of the interval before its end: at 60 of 90 s."""
    stage.lazy.ended.wait(max(0.0, stage.began + WATCHED_S - time.monotonic()))
    assert 55 < time.monotonic() - stage.began < 70
    (bye,) = stage.lazy.requests("BYE")
    assert b"session refresh" in bye, "the reason is told"


def test_b15_bye_when_a_refresh_gets_no_reply(stage: Stage) -> None:
    """Refresh at 45 s, given up after 64*T1 (RFC 3261 section 17.1.1.2): BYE at 77 s, before the interval ends."""
    stage.mute.ended.wait(max(0.0, stage.began + WATCHED_S - time.monotonic()))
    assert len(refresh_of(stage.mute)) == 1
    assert 72 < time.monotonic() - stage.began < 90
    assert stage.mute.requests("BYE")
    eventually("the end of the call", lambda: len(stage.core.events("CallEnded")) >= 2, 3)
    assert [event["status"] for event in stage.core.events("CallEnded")] == [408, 408]
    assert stage.core.stats()["calls_active"] == 1, (
        "only the call whose refresh was answered is left"
    )
    assert not stage.choosy.ended.is_set()
