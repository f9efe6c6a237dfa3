# SPDX-License-Identifier: GPL-3.0-or-later
"""Media before the answer, both ways, against a telephone that is not PJSIP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import status_of
from hil.peers.phone import Phone, PhoneCall, body_of, rtp_of
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd
from hil.talk import hears


def _many(rtp: RtpEnd) -> bool:
    return len(rtp.packets) > 10


def test_a_dialled_peer_is_heard_and_played_to_before_it_answers(
    core: LocalCore, phone: Phone
) -> None:
    def ring(call: PhoneCall, invite: bytes) -> None:
        phone.respond(invite, "180 Ringing")
        phone.respond(invite, "183 Session Progress", call.sdp())
        call.rtp.send_to(rtp_of(invite))

    phone.on_invite = ring
    calls = len(core.events("EarlyMedia"))
    core.dial(phone.uri(), "place")
    call = phone.wait_incoming()
    hears(call.rtp)
    (early,) = core.events("EarlyMedia")[calls:]
    assert not core.events("answered")
    phone.respond(call.invite, "200 OK", call.sdp())
    core.wait_event("answered", id=early["id"])
    before = time.monotonic()
    hears(call.rtp, since=before)
    assert call.rtp.missing() == 0
    assert len({packet.ssrc for packet in call.rtp.packets}) == 1, "one stream from 183 on"
    call.bye()
    ended = core.wait_event("CallEnded", id=early["id"])
    assert ended["stats"]["rx_packets"] == pytest.approx(call.rtp.sent, abs=3)
    _, (left, _) = audio.read_wav(Path(early["recording"]))
    assert len(left) > audio.RATE, "the recording begins with the early media"


def test_of_several_forks_the_one_that_answers_has_the_media(core: LocalCore, phone: Phone) -> None:
    with RtpEnd() as first, RtpEnd() as second:
        phone.on_invite = lambda call, invite: None
        answered = len(core.events("answered"))
        core.dial(phone.uri(), "place")
        call = phone.wait_incoming()
        sdp = call.sdp()
        ports = {"a": first.port, "b": second.port}
        for tag, rtp in (("a", first), ("b", second)):
            body = sdp.replace(f"audio {call.rtp.port}", f"audio {ports[tag]}")
            phone.respond(call.invite, "183 Session Progress", body, tag=tag)
            eventually(f"early media at fork {tag}", partial(_many, rtp), 5)
        body = sdp.replace(f"audio {call.rtp.port}", f"audio {first.port}")
        phone.respond(call.invite, "200 OK", body, tag="a")
        eventually("the answer", lambda: len(core.events("answered")) > answered, 5)
        time.sleep(0.1)
        at = time.monotonic()
        hears(first, since=at)
        assert not second.since(at), "the fork that lost still gets media"
        phone.respond(
            call.invite, "200 OK", sdp.replace(f"{call.rtp.port}", f"{second.port}"), tag="b"
        )
        bye = call.wait_request("BYE")
        assert b";tag=b" in bye, bye
        at = time.monotonic()
        hears(first, since=at)
        assert not second.since(at)
        call.local_tag = "a"
        call.bye()


@pytest.mark.parametrize("headers", ["", "Supported: 100rel"])
def test_a_caller_hears_us_before_we_answer(core: LocalCore, phone: Phone, headers: str) -> None:
    call = phone.new("early.wait2000.answer")
    calling = threading.Thread(target=call.call, args=(headers,))
    calling.start()
    eventually("183", lambda: any(status_of(m) == 183 for m in call.seen), 5)
    progress = next(m for m in call.seen if status_of(m) == 183)
    assert (b"RSeq" in progress) == bool(headers), progress
    assert "m=audio" in body_of(progress)
    call.rtp.send_to(rtp_of(progress))
    hears(call.rtp, 2)
    assert not [m for m in call.seen if status_of(m) == 200 and b" INVITE" in m]
    calling.join(10)
    number = core.call(call.call_id)
    core.wait_event("answered", id=number)
    at = time.monotonic()
    hears(call.rtp, since=at)
    assert call.rtp.missing() == 0
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_a_reliable_183_sends_no_media_before_its_prack(
    start_core: Callable[..., LocalCore], caller_melody: list[int]
) -> None:
    core = start_core()
    with Phone(core.sip, play=caller_melody) as phone:
        call = phone.new("early")
        phone.acknowledges = False
        phone.send(call.request("INVITE", call.sdp(), "Supported: 100rel"))
        eventually("183 twice", lambda: sum(status_of(m) == 183 for m in call.seen) >= 2, 5)
        assert not call.rtp.packets
        phone.acknowledges = True
        eventually("audio after the PRACK", lambda: len(call.rtp.packets) > 10, 10)
