# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold, resume and new offers by the core, and by a peer in the old way."""

from __future__ import annotations

import re
import time
from functools import partial

from hil.conftest import CALLER_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import field, status_of
from hil.peers.phone import Phone, PhoneCall, body_of, rtp_of
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd
from hil.talk import connected, hears_from_now


def more(core: LocalCore, kind: str, than: int) -> bool:
    return len(core.events(kind)) > than


def directions(call: PhoneCall) -> list[str]:
    found = [
        re.search(r"^a=(send\w+|recvonly|inactive)", body_of(m), re.MULTILINE)
        for m in call.requests("INVITE")
    ]
    return [match.group(1) if match else "" for match in found]


def versions(call: PhoneCall) -> list[int]:
    found = [
        re.search(r"^o=\S+ \d+ (\d+)", body_of(m), re.MULTILINE) for m in call.requests("INVITE")
    ]
    return [int(match.group(1)) for match in found if match]


def test_we_hold_and_resume(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    assert core.do("hold", number)["event"] == "did"
    hears_from_now(call)  # music on hold
    assert core.do("hold", number, inactive=True)["event"] == "did"
    time.sleep(0.1)
    at = time.monotonic()
    time.sleep(0.5)
    assert not call.rtp.since(at), "RTP on an inactive stream"
    assert core.do("resume", number)["event"] == "did"
    hears_from_now(call)
    assert directions(call) == ["sendonly", "inactive", "sendrecv"]
    assert versions(call) == sorted(set(versions(call))), (
        "o= rises with each change (RFC 3264 section 8)"
    )
    assert not core.events("CallHeld"), "the telephone held nobody"
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_the_peer_holds_the_old_way_and_the_new_way(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    for address, direction in (
        ("0.0.0.0", "sendrecv"),
        ("127.0.0.1", "sendonly"),
        ("127.0.0.1", "inactive"),
    ):
        held = len(core.events("CallHeld"))
        answer = call.reinvite(direction, address=address)
        assert status_of(answer) == 200
        assert "c=IN IP4 127.0.0.1" in body_of(answer)
        eventually("CallHeld", partial(more, core, "CallHeld", held), 3)
        time.sleep(0.1)
        at = time.monotonic()
        time.sleep(0.3)
        assert not call.rtp.since(at)
        resumed = len(core.events("CallResumed"))
        assert status_of(call.reinvite()) == 200
        eventually("CallResumed", partial(more, core, "CallResumed", resumed), 3)
        hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_a_call_that_begins_on_hold(core: LocalCore, phone: Phone) -> None:
    call = phone.new("answer")
    answer = call.call(direction="sendonly")
    assert "a=recvonly" in body_of(answer)
    number = core.call(call.call_id)
    core.wait_event("CallHeld", id=number)
    time.sleep(0.2)
    assert not call.rtp.packets
    assert status_of(call.reinvite()) == 200
    core.wait_event("CallResumed", id=number)
    hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_a_refused_offer_keeps_the_old_session_in_both_directions(
    core: LocalCore, phone: Phone
) -> None:
    call, number = connected(core, phone)
    answer = call.reinvite(formats="18")  # theirs: G.729 only
    assert status_of(answer) == 488
    phone.send(call.request("ACK", cseq=call.cseq))
    hears_from_now(call)
    phone.on_reinvite = lambda call, invite: phone.respond(invite, "488 Not Acceptable Here")
    refused = core.do("hold", number)
    assert (refused["event"], refused["code"], refused["status"]) == (
        "refused",
        "sip.offer_refused",
        488,
    )
    hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_we_change_the_codec(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    hears_from_now(call, 1)
    assert core.do("renegotiate", number, codecs=["PCMU"])["event"] == "did"
    time.sleep(0.1)
    at = time.monotonic()
    hears_from_now(call)
    assert {packet.payload_type for packet in call.rtp.since(at)} == {audio.MU_LAW}
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_glare_is_sorted_out(core: LocalCore, phone: Phone) -> None:
    """Both sides offer at once: 491 for the peer's, and ours goes through after its own 491 (RFC 3261 section 14.1)."""
    call, number = connected(core, phone)
    theirs: list[int] = []

    def clash(call: PhoneCall, invite: bytes) -> None:
        if not theirs:
            again = call.request("INVITE", call.sdp())
            theirs.append(call.cseq)
            phone.send(again)
            phone.respond(invite, "491 Request Pending")
        else:
            phone.answer_reinvite(call, invite)

    phone.on_reinvite = clash
    assert core.do("hold", number, wait_s=8)["event"] == "did"
    refusals = [
        m for m in call.seen if field(m, "CSeq") == f"{theirs[0]} INVITE" and status_of(m) >= 200
    ]
    assert refusals
    assert status_of(refusals[0]) == 491
    phone.send(call.request("ACK", cseq=theirs[0]))
    assert directions(call)[-1] == "sendonly"
    hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_the_peer_moves_to_another_address(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    hears_from_now(call)
    with RtpEnd(play=audio.melody(CALLER_NOTES, 0.5)) as other:
        moved = call.sdp().replace(f"audio {call.rtp.port} ", f"audio {other.port} ")
        answer = call.final(call.request("INVITE", moved))
        assert status_of(answer) == 200
        phone.send(call.request("ACK", cseq=call.cseq))
        time.sleep(0.1)  # what was on its way when the offer was answered
        call.rtp.send_to(None)
        eventually("RTP at the new address", lambda: len(other.packets) > 20, 5)
        at = time.monotonic() + 0.1
        other.send_to(rtp_of(answer))
        time.sleep(0.5)
        assert not call.rtp.since(at), "RTP at the old address"
        assert len({packet.ssrc for packet in [*call.rtp.packets, *other.packets]}) == 1
        assert other.packets[0].sequence - call.rtp.packets[-1].sequence & 0xFFFF == 1, "a gap"
    call.bye()
    core.wait_event("CallEnded", id=number)
