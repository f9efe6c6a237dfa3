# SPDX-License-Identifier: GPL-3.0-or-later
"""loopcall's SIP state machine on virtual time, against answers written by hand."""

from __future__ import annotations

import pytest

from voice_edge.loopcall import sdp, sip_message
from voice_edge.loopcall.g711 import PCMA, PCMU
from voice_edge.loopcall.sip_message import SipMessage
from voice_edge.loopcall.ua import Answered, Ended, Progress, Renegotiated, UserAgent

LOCAL = ("127.0.0.1", 6000)
PEER = ("127.0.0.1", 5060)
ANSWER = sdp.write("127.0.0.1", 4000, [PCMA])


def agent() -> UserAgent:
    return UserAgent(LOCAL, PEER, 7000, seed=1)


def sent(ua: UserAgent) -> list[SipMessage]:
    """Take what the machine wants sent."""
    messages = [sip_message.parse(data) for data, _ in ua.outbox]
    ua.outbox.clear()
    return messages


def answer(request: SipMessage, status: int, body: bytes = b"", **extra: str) -> bytes:
    message = SipMessage(f"SIP/2.0 {status} Whatever", body=body)
    message.headers = [(name, request.get(name)) for name in ("Via", "From")]
    to = request.get("To")
    message.headers += [
        ("To", to if "tag=" in to or status == 100 else f"{to};tag=peer"),
        ("Call-ID", request.get("Call-ID")),
        ("CSeq", request.get("CSeq")),
        *((name.replace("_", "-"), value) for name, value in extra.items()),
    ]
    return message.encode()


def request_of_peer(ua: UserAgent, method: str, body: bytes = b"", branch: str = "b1") -> bytes:
    message = SipMessage(f"{method} sip:caller@127.0.0.1:6000 SIP/2.0", body=body)
    message.headers = [
        ("Via", f"SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK{branch}"),
        ("From", "<sip:agent@127.0.0.1>;tag=peer"),
        ("To", ua._from),
        ("Call-ID", ua.call_id),
        ("CSeq", f"1 {method}"),
    ]
    return message.encode()


def established(now: float = 0.0) -> UserAgent:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1:5060", now)
    (invite,) = sent(ua)
    contact = "<sip:agent@127.0.0.1:5062>"
    ua.receive(answer(invite, 200, ANSWER, Contact=contact), PEER, now)
    ua.outbox.clear()
    ua.events.clear()
    return ua


def test_call_answer_and_bye() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1:5060", 0.0)
    (invite,) = sent(ua)
    offer = sdp.parse(invite.body)
    assert (offer.port, offer.payload_types) == (7000, (8, 0, 101))
    ua.receive(answer(invite, 100), PEER, 0.1)
    ua.receive(answer(invite, 180), PEER, 0.2)
    assert ua.next_timer() is None, "a provisional answer ends the repetition"
    ok = answer(invite, 200, ANSWER, Contact="<sip:agent@127.0.0.1:5062;ob>")
    ua.receive(ok, PEER, 0.3)
    assert ua.outbox[0][0].startswith(b"ACK sip:agent@127.0.0.1:5062;ob SIP/2.0")
    assert ua.outbox[0][1] == ("127.0.0.1", 5062)
    (ack,) = sent(ua)
    assert ack.cseq == (invite.cseq[0], "ACK")
    assert ack.branch != invite.branch
    ua.receive(ok, PEER, 0.8)
    assert [again.encode() for again in sent(ua)] == [ack.encode()], "a repeated 200 is ACKed again"
    ua.bye(1.0)
    (bye,) = sent(ua)
    assert bye.to_tag == "peer"
    assert bye.cseq == (invite.cseq[0] + 1, "BYE")
    ua.receive(answer(bye, 200), PEER, 1.1)
    assert ua.events[0] == Progress(180)
    assert isinstance(ua.events[1], Answered)
    assert ua.events[2] == Ended(200, "Whatever", by_remote=False)
    assert ua.next_timer() is None


def test_a_mute_peer_is_called_seven_times_then_given_up() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    times = [0.0]
    while (due := ua.next_timer()) is not None:
        ua.outbox.clear()
        ua.advance(due)
        if ua.outbox:
            times.append(due)
    assert times == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert ua.events == [Ended(408, "no answer to INVITE", by_remote=False)]


def test_a_refusal_is_acknowledged_each_time_it_comes() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    (invite,) = sent(ua)
    busy = answer(invite, 486)
    for _ in range(3):
        ua.receive(busy, PEER, 0.1)
    acks = sent(ua)
    assert [ack.method for ack in acks] == ["ACK"] * 3
    assert acks[0].branch == invite.branch
    assert acks[0].to_tag == "peer"
    assert ua.events == [Ended(486, "Whatever", by_remote=True)]


def test_cancel_waits_for_a_provisional_answer() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    (invite,) = sent(ua)
    ua.cancel(0.1)
    assert sent(ua) == []
    ua.receive(answer(invite, 180), PEER, 0.2)
    (cancel,) = sent(ua)
    assert (cancel.method, cancel.branch) == ("CANCEL", invite.branch)
    ua.receive(answer(cancel, 200), PEER, 0.3)
    ua.receive(answer(invite, 487), PEER, 0.4)
    assert [ack.method for ack in sent(ua)] == ["ACK"]
    assert ua.events[-1] == Ended(487, "Whatever", by_remote=True)
    assert ua.next_timer() is None


def test_an_answer_that_crosses_the_cancel_is_hung_up() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    (invite,) = sent(ua)
    ua.receive(answer(invite, 180), PEER, 0.1)
    ua.cancel(0.2)
    ua.outbox.clear()
    ua.receive(answer(invite, 200, ANSWER, Contact="<sip:a@127.0.0.1:5062>"), PEER, 0.3)
    assert [message.method for message in sent(ua)] == ["ACK", "BYE"]


def test_a_cancel_without_a_final_answer_is_given_up() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    (invite,) = sent(ua)
    ua.receive(answer(invite, 180), PEER, 0.1)
    ua.cancel(1.0)
    while (due := ua.next_timer()) is not None:
        ua.advance(due)
    assert ua.events[-1] == Ended(487, "no answer to CANCEL", by_remote=False)


def test_bye_of_the_peer_ends_the_call_once() -> None:
    ua = established()
    bye = request_of_peer(ua, "BYE")
    ua.receive(bye, PEER, 1.0)
    ua.receive(bye, PEER, 1.5)
    answers = sent(ua)
    assert [message.status for message in answers] == [200, 200]
    assert ua.events == [Ended(200, "BYE", by_remote=True)]


def test_a_bye_that_nobody_answers_ends_after_64_t1() -> None:
    ua = established()
    ua.bye(10.0)
    last = 10.0
    while (due := ua.next_timer()) is not None:
        last = due
        ua.advance(due)
    assert last == pytest.approx(42.0)
    assert len(ua.outbox) == 11  # 0.5 1.5 3.5 7.5 11.5 … 31.5 s after the first
    assert ua.events == [Ended(408, "no answer to BYE", by_remote=False)]


def test_hold_is_answered_in_the_right_direction_until_acknowledged() -> None:
    ua = established()
    offer = sdp.write("127.0.0.1", 4002, [PCMU], direction="sendonly")
    ua.receive(request_of_peer(ua, "INVITE", offer), PEER, 1.0)
    (ok,) = sent(ua)
    assert sdp.parse(ok.body).direction == "recvonly"
    event = ua.events[0]
    assert isinstance(event, Renegotiated)
    assert (event.media.port, event.media.first_codec()[0].name) == (4002, "PCMU")
    ua.advance(1.5)
    assert [message.status for message in sent(ua)] == [200], "200 is repeated without ACK"
    ua.receive(request_of_peer(ua, "ACK", branch="b2"), PEER, 1.6)
    assert ua.next_timer() is None


def test_a_reinvite_without_a_common_codec_gets_488_and_the_call_goes_on() -> None:
    ua = established()
    offer = ANSWER.replace(b" 8 101", b" 18").replace(b"PCMA", b"G729")
    ua.receive(request_of_peer(ua, "INVITE", offer), PEER, 1.0)
    assert [message.status for message in sent(ua)] == [488]
    assert ua.state == "confirmed"


@pytest.mark.parametrize(
    ("method", "status"), [("OPTIONS", 200), ("INFO", 200), ("MESSAGE", 405), ("BYE", 481)]
)
def test_other_requests(method: str, status: int) -> None:
    ua = established()
    text = request_of_peer(ua, method)
    if method == "BYE":
        text = text.replace(ua.call_id.encode(), b"another@call")
    ua.receive(text, PEER, 1.0)
    assert [message.status for message in sent(ua)] == [status]
    assert ua.state == "confirmed"


def test_routes_are_reversed_and_used() -> None:
    ua = agent()
    ua.invite("sip:agent@127.0.0.1", 0.0)
    (invite,) = sent(ua)
    routes = "<sip:127.0.0.1:5090;lr>, <sip:127.0.0.1:5091;lr>"
    ok = answer(invite, 200, ANSWER, Contact="<sip:a@127.0.0.1:5062>", Record_Route=routes)
    ua.receive(ok, PEER, 0.1)
    assert ua.outbox[0][1] == ("127.0.0.1", 5091)
    (ack,) = sent(ua)
    assert ack.get_all("Route") == ["<sip:127.0.0.1:5091;lr>", "<sip:127.0.0.1:5090;lr>"]


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\r\n\r\n",
        b"\xff\xfe\x00",
        b"SIP/2.0 xyz OK\r\n\r\n",
        b"INVITE sip:a@b\r\n\r\n",
        b"OPTIONS sip:a@b SIP/2.0\r\nno colon\r\n\r\n",
        b"OPTIONS sip:a@b SIP/2.0\r\nVia: x\r\n\r\n",
    ],
)
def test_what_is_not_sip_is_dropped(datagram: bytes) -> None:
    ua = established()
    ua.receive(datagram, PEER, 1.0)
    assert (ua.outbox, ua.events, ua.state) == ([], [], "confirmed")


def test_compact_and_folded_headers_are_read() -> None:
    text = (
        b"OPTIONS sip:a@b SIP/2.0\r\nv: SIP/2.0/UDP h;branch=z9hG4bKx\r\nf: <sip:a@b>\r\n"
        b" ;tag=one\r\nt: <sip:c@d>\r\ni: id\r\nCSeq: 4 OPTIONS\r\nl: 2\r\n\r\nabcd"
    )
    message = sip_message.parse(text)
    assert (message.branch, message.from_tag, message.call_id) == ("z9hG4bKx", "one", "id")
    assert message.body == b"ab"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"v=0\r\n", b"c=IN IP4 127.0.0.1\r\nm=audio x RTP/AVP 8\r\n"]
)
def test_a_description_that_cannot_be_used_is_refused(body: bytes) -> None:
    with pytest.raises(sdp.SdpError):
        sdp.parse(body)


def test_only_the_first_audio_stream_counts() -> None:
    body = ANSWER + b"m=video 9 RTP/AVP 99\r\nc=IN IP4 127.0.0.9\r\na=inactive\r\n"
    media = sdp.parse(body)
    assert (media.address, media.direction, media.telephone_event) == ("127.0.0.1", "sendrecv", 101)
