# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfer by REFER both ways, take-over by Replaces and redirection by 3xx, against telephones that are not PJSIP."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from hil.conftest import CALLER_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import field, status_of
from hil.peers.phone import Phone, PhoneCall, body_of, method_of
from hil.peers.process import eventually
from hil.talk import connected, hears_from_now

SIPFRAG = "Event: refer\r\nSubscription-State: {state}\r\nContent-Type: message/sipfrag;version=2.0"


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    return start_core(settings={"transfer_requests": "allow"})


def fragments(call: PhoneCall) -> list[tuple[str, str]]:
    """Subscription-State and first line of the sipfrag of each NOTIFY."""
    return [
        ((field(m, "Subscription-State") or "").split(";")[0], body_of(m).strip())
        for m in call.requests("NOTIFY")
    ]


def test_blind_transfer_with_progress_and_bye_at_its_end(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)

    def follow(call: PhoneCall, refer: bytes) -> None:
        phone.respond(refer, "202 Accepted")
        for state, line in (
            ("active;expires=60", "180 Ringing"),
            ("terminated;reason=noresource", "200 OK"),
        ):
            phone.send(call.request("NOTIFY", f"SIP/2.0 {line}\r\n", SIPFRAG.format(state=state)))
            time.sleep(0.1)

    phone.on_refer = follow
    done = core.do("transfer", number, target="sip:+33612345678@192.0.2.9;user=phone")
    assert (done["event"], done["result"]) == ("did", 200)
    (refer,) = call.requests("REFER")
    assert field(refer, "Refer-To") == "<sip:+33612345678@192.0.2.9;user=phone>"
    assert [
        (e["status"], e["last"]) for e in core.events("TransferProgress") if e["id"] == number
    ] == [
        (202, False),
        (180, False),
        (200, True),
    ]
    assert call.ended.wait(3), "no BYE after the transfer"
    core.wait_event("CallEnded", id=number)


@pytest.mark.parametrize(
    ("answer", "status"), [("603 Decline", 603), ("405 Method Not Allowed", 405)]
)
def test_refused_transfer_leaves_the_call_up(
    core: LocalCore, phone: Phone, answer: str, status: int
) -> None:
    call, number = connected(core, phone)
    phone.on_refer = lambda call, refer: phone.respond(refer, answer)
    refused = core.do("transfer", number, target="sip:200@192.0.2.9")
    assert (refused["code"], refused["status"]) == ("sip.transfer_failed", status)
    hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_a_peer_that_accepts_and_hangs_up_has_taken_the_transfer(
    core: LocalCore, phone: Phone
) -> None:
    _, number = connected(core, phone)

    def leave(call: PhoneCall, refer: bytes) -> None:
        phone.respond(refer, "202 Accepted")
        phone.send(call.request("BYE"))

    phone.on_refer = leave
    done = core.do("transfer", number, target="sip:200@192.0.2.9")
    assert (done["event"], done["result"]) == ("did", 202)


def test_attended_transfer_names_the_dialog_of_the_other_call(
    core: LocalCore, phone: Phone
) -> None:
    call, number = connected(core, phone)
    other, other_number = connected(core, phone)

    def follow(call: PhoneCall, refer: bytes) -> None:
        phone.respond(refer, "202 Accepted")
        phone.send(
            call.request(
                "NOTIFY", "SIP/2.0 200 OK\r\n", SIPFRAG.format(state="terminated;reason=noresource")
            )
        )

    phone.on_refer = follow
    done = core.do("transfer_to", number, other=other_number)
    assert (done["event"], done["result"]) == ("did", 200)
    (refer,) = call.requests("REFER")
    found = re.fullmatch(r"<(sip:[^?]+)\?Replaces=([^>]+)>", field(refer, "Refer-To") or "")
    assert found, refer
    assert found.group(1) == f"sip:phone@127.0.0.1:{phone.address[1]}"
    assert (
        unquote(found.group(2))
        == f"{other.call_id};to-tag={other.local_tag};from-tag={other.remote_tag}"
    )
    assert call.ended.wait(3)
    assert other.ended.wait(3), "both ends leave once the transfer is done"


def test_the_peer_has_us_call_somebody_else(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    phone.on_invite = lambda target, invite: phone.respond(invite, "180 Ringing")
    answer = call.final(call.request("REFER", headers=f"Refer-To: <{phone.uri()}>"))
    assert status_of(answer) == 202
    asked = core.wait_event("TransferRequested", id=number)
    assert asked["target_host"] == "127.0.0.1"
    core._order(op="do", verb="follow", id=number)
    target = phone.wait_incoming()
    eventually(
        "NOTIFY of the ringing", lambda: ("active", "SIP/2.0 180 Ringing") in fragments(call), 3
    )
    phone.answer(target)
    eventually("the last NOTIFY", lambda: ("terminated", "SIP/2.0 200 OK") in fragments(call), 3)
    assert fragments(call)[0] == ("active", "SIP/2.0 100 Trying")
    hears_from_now(target)
    call.bye()
    target.bye()


def test_refused_by_the_application_or_dropped_with_the_call(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    assert (
        status_of(call.final(call.request("REFER", headers="Refer-To: sip:200@192.0.2.9"))) == 202
    )
    core.wait_event("TransferRequested", id=number)
    core.do("refuse", number, status=486)
    eventually("the refusal", lambda: ("terminated", "SIP/2.0 486 Busy Here") in fragments(call), 3)
    assert (
        status_of(call.final(call.request("REFER", headers="Refer-To: sip:200@192.0.2.9"))) == 202
    )
    core.do("hangup", number)
    eventually(
        "the end of it", lambda: fragments(call)[-1] == ("terminated", "SIP/2.0 603 Decline"), 3
    )


def test_replaces_takes_over_the_call_with_its_audio(
    core: LocalCore, phone: Phone, caller_melody: list[int]
) -> None:
    call, number = connected(core, phone)
    hears_from_now(call, 3)
    with Phone(core.sip, play=caller_melody) as other:
        new = other.new("answer")
        replaces = f"Replaces: {call.call_id};to-tag={call.remote_tag};from-tag={call.local_tag}"
        assert status_of(new.call(f"Require: replaces\r\n{replaces}")) == 200
        assert call.ended.wait(3), "the old far end got no BYE"
        core.wait_event("CallReplaced", id=number)
        hears_from_now(new)
        assert status_of(new.reinvite("sendonly")) == 200
        core.wait_event("CallHeld", id=number)
        assert status_of(new.reinvite()) == 200
        hears_from_now(new, 4)
        assert not [e for e in core.events("call") if e["sip_call_id"] == new.call_id], (
            "it is the same call, not a second one"
        )
        sent = new.rtp.sent
        new.bye()
        ended = core.wait_event("CallEnded", id=number)
        assert ended["stats"]["rx_packets"] >= sent - 5
        recording = core.wait_event("answered", id=number)["recording"]
        _, (left, _) = audio.read_wav(Path(recording))
        run = audio.heard(left, CALLER_NOTES)
        begins = [place for place, note in enumerate(run) if note == CALLER_NOTES[0]]
        assert len(begins) >= 2, f"of both far ends' melodies the recording holds {run}"


def test_replaces_answers_a_call_of_ours_that_still_rings(core: LocalCore, phone: Phone) -> None:
    """An early dialog that we began may be taken over (RFC 3891 section 3): call pick-up."""
    phone.on_invite = lambda call, invite: phone.respond(invite, "180 Ringing")
    answered = len(core.events("answered"))
    core.dial(phone.uri())
    ringing = phone.wait_incoming()
    time.sleep(0.2)
    with Phone(core.sip) as other:
        taker = other.new("answer")
        replaces = f"{ringing.call_id};to-tag={ringing.remote_tag};from-tag={ringing.local_tag}"
        assert status_of(taker.call(f"Replaces: {replaces};early-only")) == 200
        eventually("the answer", lambda: len(core.events("answered")) > answered, 5)
        hears_from_now(taker)
        assert ringing.ended.wait(3), "no CANCEL for the one that rings"
        taker.bye()


def test_replaces_of_no_call_of_ours_and_by_half_a_dialog(core: LocalCore, phone: Phone) -> None:
    call, number = connected(core, phone)
    for replaces, status in (
        (f"{call.call_id};to-tag=x;from-tag={call.local_tag}", 481),
        ("nobody@nowhere;to-tag=a;from-tag=b", 481),
        (f"{call.call_id};to-tag={call.remote_tag};from-tag={call.local_tag};early-only", 486),
    ):
        new = phone.new("answer")
        answer = new.call(f"Replaces: {replaces}")
        assert status_of(answer) == status, answer
        phone.send(new.request("ACK", cseq=new.cseq))
    hears_from_now(call)
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_a_taker_that_gives_up_leaves_the_call_as_it_was(core: LocalCore, phone: Phone) -> None:
    """200 without ACK, then BYE: until the ACK the old far end has the call."""
    call, number = connected(core, phone)
    new = phone.new("answer")
    replaces = f"Replaces: {call.call_id};to-tag={call.remote_tag};from-tag={call.local_tag}"
    answer = new.final(new.request("INVITE", new.sdp(), replaces))
    assert status_of(answer) == 200
    new.remote_tag = (re.search(r"tag=(\S+)", field(answer, "To") or "") or ["", ""])[1]
    hears_from_now(call)
    assert status_of(new.final(new.request("BYE"))) == 200
    hears_from_now(call)
    assert not new.rtp.packets, "media to somebody who has not confirmed"
    call.bye()
    core.wait_event("CallEnded", id=number)


def test_redirected_call_goes_to_the_new_target(core: LocalCore, phone: Phone) -> None:
    with Phone(core.sip, play=[0] * 160) as other:
        phone.on_invite = lambda call, invite: phone.send(
            redirect(phone, call, invite, f"<{other.uri()}>;q=0.9, <{phone.uri()}>;q=0.1")
        )
        answered = len(core.events("answered"))
        core.dial(phone.uri("+491701234567"))
        target = other.wait_incoming()
        eventually("the answer", lambda: len(core.events("answered")) > answered, 5)
        hears_from_now(target)
        assert phone.incoming[0].call_id == target.call_id, (
            "same Call-ID (RFC 3261 section 8.1.3.4)"
        )
        assert any(method_of(m) == "ACK" for m in phone.incoming[0].seen)
        target.bye()


def test_redirection_in_a_circle_ends(core: LocalCore, phone: Phone) -> None:
    phone.on_invite = lambda call, invite: phone.send(
        redirect(phone, call, invite, f"<{phone.uri()}>")
    )
    phone.on_reinvite = phone.on_invite
    failed = len(core.events("dial_failed"))
    core.dial(phone.uri())
    eventually("the end", lambda: len(core.events("dial_failed")) > failed, 5)
    assert core.events("dial_failed")[-1]["status"] == 302
    assert len(phone.incoming[0].requests("INVITE")) == 1


def redirect(phone: Phone, call: PhoneCall, invite: bytes, contacts: str) -> bytes:
    """302 with these contacts."""
    lines = ["SIP/2.0 302 Moved Temporarily"]
    lines += [f"{name}: {field(invite, name)}" for name in ("Via", "From", "Call-ID", "CSeq")]
    lines += [
        f"To: {field(invite, 'To')};tag={call.local_tag}",
        f"Contact: {contacts}",
        "Content-Length: 0",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
