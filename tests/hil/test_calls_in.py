# SPDX-License-Identifier: GPL-3.0-or-later
"""SIPp calls the core: what each side must see when a call is answered, refused, left or changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.process import descriptors, eventually, udp_ports_of
from hil.peers.rtp import RtpEnd
from hil.peers.sipp import Sipp


def media(rtp: RtpEnd, formats: str = "8 0 101", event: int = 101) -> dict[str, str | int]:
    return {"media": rtp.port, "formats": formats, "event": event}


def call(
    core: LocalCore, rtp: RtpEnd, path: Path, scenario: str, words: str, **options: Any
) -> Sipp:
    # uac_refused has no rtpmap but for its odd codec, so no telephone-event either
    options.setdefault("keys", media(rtp, "8 0" if scenario == "uac_refused" else "8 0 101"))
    return Sipp(scenario, path, remote=core.sip, user=words, **options)


@pytest.fixture(scope="module", autouse=True)
def unacknowledged(
    request: pytest.FixtureRequest,
    start_core: Callable[..., LocalCore],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalCore, Sipp] | None]:
    """The half minute that B09 takes passes while the other tests run; its own test is the last."""
    if not any("b09" in item.name for item in request.session.items):
        yield None
        return
    core = start_core()
    with RtpEnd() as rtp:
        path = tmp_path_factory.mktemp("b09")
        words = "answering.wait1000.hangup"
        caller = call(core, rtp, path, "uac_no_ack", words, timeout_s=300)
        yield core, caller
        caller.stop()


def assert_media_ports_freed(core: LocalCore) -> None:
    def left() -> set[int]:
        return udp_ports_of(core.process.pid) & set(core.media_ports)

    eventually(f"media ports freed, still bound: {left()}", lambda: not left(), 2)


def test_caller_hangs_up_and_both_heard_each_other(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path
) -> None:
    caller = call(core, rtp, tmp_path, "uac_hangup", "ring.wait200.answer", extra=["-d", "4000"])
    rtp.send_to(caller.remote_rtp())
    caller.finish()
    number = core.call(caller.call_id())
    ended = core.wait_event("CallEnded", id=number)
    assert ended["by_remote"] is True
    assert [message.text[:11] for message in caller.received("SIP/2.0 180")], (
        "no 180 before the 200"
    )

    run = audio.heard(rtp.samples(), CORE_NOTES)
    assert len(run) >= 6, f"the caller heard {run}"
    assert audio.in_order(run, CORE_NOTES), f"the caller heard {run}"
    assert rtp.missing() == 0
    assert {packet.payload_type for packet in rtp.packets} == {audio.A_LAW}

    stats = ended["stats"]
    # The packets of the moment between BYE and its handling may count or not.
    assert stats["rx_packets"] == pytest.approx(rtp.sent_before(caller.ended_at()), abs=2)
    assert stats["tx_packets"] == pytest.approx(len(rtp.packets), abs=1)
    assert stats["tx_packets"] == pytest.approx(200, abs=6)
    assert stats["rx_lost"] == stats["rx_late"] == stats["rx_malformed"] == stats["tx_errors"] == 0

    recording = Path(core.wait_event("answered", id=number)["recording"])
    rate, (left, right) = audio.read_wav(recording)
    assert rate == audio.RATE
    for side, notes in ((left, CALLER_NOTES), (right, CORE_NOTES)):
        run = audio.heard(side, notes)
        assert len(run) >= 6, f"the recording holds {run}"
        assert audio.in_order(run, notes), f"the recording holds {run}"
    assert_media_ports_freed(core)


def test_callee_hangs_up(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    caller = call(
        core,
        rtp,
        tmp_path,
        "uac_callee_hangs_up",
        "answer.wait500.hangup",
        expand={"wait": "5000"},
    )
    caller.finish()
    ended = core.wait_event("CallEnded", id=core.call(caller.call_id()))
    assert ended["by_remote"] is False
    assert_media_ports_freed(core)


def test_cancel_before_answer(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    caller = call(core, rtp, tmp_path, "uac_cancel", "ring")
    caller.finish()
    ended = core.wait_event("CallEnded", id=core.call(caller.call_id()))
    assert (ended["status"], ended["by_remote"]) == (487, True)
    assert_media_ports_freed(core)


@pytest.mark.parametrize("status", [486, 480, 603])
def test_refused_by_the_application(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path, status: int
) -> None:
    caller = call(
        core, rtp, tmp_path, "uac_refused", f"reject{status}", expand={"status": str(status)}
    )
    assert caller.finish().successful == 1
    assert_media_ports_freed(core)


def test_503_with_retry_after_at_the_limit_and_room_again_afterwards(
    start_core: Callable[..., LocalCore], rtp: RtpEnd, tmp_path: Path
) -> None:
    core = start_core(max_calls=1)
    first = call(core, rtp, tmp_path / "first", "uac_hangup", "answer", extra=["-d", "1500"])
    core.wait_event("answered", id=core.call(first.call_id()))
    second = call(core, rtp, tmp_path / "second", "uac_refused", "answer", expand={"status": "503"})
    second.finish()
    (refusal,) = second.answers("INVITE", 503)
    assert int(refusal.field("Retry-After") or 0) > 0, refusal.text
    assert len(core.events("call")) == 1, "the call over the limit reached the application"
    first.finish()
    third = call(core, rtp, tmp_path / "third", "uac_hangup", "answer", extra=["-d", "200"])
    third.finish()


def test_488_when_no_codec_is_common(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    before = core.stats()["sip_rejected"]
    calls = len(core.events("call"))
    caller = call(
        core,
        rtp,
        tmp_path,
        "uac_refused",
        "answer",
        keys=media(rtp, "97"),
        expand={"status": "488"},
    )
    caller.finish()
    assert core.stats()["sip_rejected"] == before + 1
    assert len(core.events("call")) == calls
    assert "488" in core.log(), "the log does not say what happened"


@pytest.mark.parametrize(("codecs", "formats"), [("PCMA", "0"), ("PCMU", "8")])
def test_488_when_the_common_codec_is_switched_off(
    start_core: Callable[..., LocalCore], rtp: RtpEnd, tmp_path: Path, codecs: str, formats: str
) -> None:
    core = start_core(codecs=codecs)
    keys = media(rtp, formats)
    call(core, rtp, tmp_path, "uac_refused", "answer", keys=keys, expand={"status": "488"}).finish()


def test_no_media_is_reported_and_the_call_stays(
    start_core: Callable[..., LocalCore], rtp: RtpEnd, tmp_path: Path
) -> None:
    core = start_core(media_timeout_s=1.5)
    caller = call(core, rtp, tmp_path, "uac_hangup", "answer", extra=["-d", "3000"])
    number = core.call(caller.call_id())
    answered = core.wait_event("answered", id=number)
    began = time.monotonic()
    silence = core.wait_event("MediaTimeout", 4, id=number)
    assert answered
    assert 1.2 < time.monotonic() - began < 2.5
    assert silence["silent_s"] == pytest.approx(1.5, abs=0.3)
    caller.finish()
    ended = core.wait_event("CallEnded", id=number)
    assert ended["by_remote"] is True
    assert ended["stats"]["rx_packets"] == 0
    assert ended["stats"]["tx_packets"] > 100, "we are to talk even if nobody is heard"


def test_b01_hold_and_resume(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    clock = time.time() - time.monotonic()
    caller = call(core, rtp, tmp_path, "uac_hold", "answer")
    rtp.send_to(caller.remote_rtp())
    caller.finish()
    answers = caller.answers("INVITE", 200)
    assert [answer.direction() for answer in answers] == [
        "sendrecv",
        "recvonly",
        "inactive",
        "sendrecv",
    ]
    assert {answer.field("c=") for answer in answers} == {"IN IP4 127.0.0.1"}
    assert len({answer.field("m=") for answer in answers[1:]}) == 1, "the port moved during hold"
    talk, held, _, resumed = (answer.at - clock for answer in answers)
    # 100 ms to let what was under way arrive
    on_hold = [packet for packet in rtp.packets if held + 0.1 < packet.at < resumed]
    assert not on_hold, f"{len(on_hold)} packets while the peer had us on hold"
    first = rtp.since(resumed)[0]
    assert first.at - resumed < 0.2, f"RTP came back after {first.at - resumed:.3f} s"
    assert len(rtp.since(talk)) > 100
    assert audio.heard(rtp.samples(rtp.since(resumed)), CORE_NOTES), "nothing heard after hold"


def test_b05_codec_switch_right_after_the_ack(core: LocalCore, rtp: RtpEnd, tmp_path: Path) -> None:
    rtp.payload_type = audio.MU_LAW
    caller = call(core, rtp, tmp_path, "uac_codec_switch", "answer", extra=["-d", "2500"])
    remote = caller.remote_rtp()
    eventually("the answer to the switch", lambda: len(caller.answers("INVITE", 200)) == 2, 3)
    rtp.payload_type = audio.A_LAW
    rtp.send_to(remote)
    caller.finish()
    first, second = caller.answers("INVITE", 200)
    assert (first.field("m=") or "").split()[3:] == ["0", "101"]
    assert (second.field("m=") or "").split()[3:] == ["8", "96"]
    clock = time.time() - time.monotonic()
    after = [packet for packet in rtp.packets if packet.at > second.at - clock + 0.1]
    assert {packet.payload_type for packet in after} == {audio.A_LAW}
    run = audio.heard(rtp.samples(after), CORE_NOTES)
    assert len(run) >= 3, f"the caller heard {run}"
    number = core.call(caller.call_id())
    core.wait_event("CallEnded", id=number)
    _, (left, _) = audio.read_wav(Path(core.wait_event("answered", id=number)["recording"]))
    run = audio.heard(left, CALLER_NOTES)
    assert len(run) >= 3, f"A-law after the switch was heard as {run}"


def test_a_transfer_that_is_not_allowed_is_declined_and_the_call_goes_on(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path
) -> None:
    caller = call(core, rtp, tmp_path, "uac_refer", "answer")
    caller.finish()
    (declined,) = caller.answers("REFER", 603)
    clock = time.time() - time.monotonic()
    assert len(rtp.since(declined.at - clock + 0.2)) > 10, "the media stopped with the refusal"
    assert not core.events("TransferRequested")
    assert_media_ports_freed(core)


def test_b07_ack_without_answer_is_followed_by_bye(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path
) -> None:
    call(core, rtp, tmp_path, "uac_no_answer_in_ack", "answer").finish()
    assert_media_ports_freed(core)


def test_offer_in_the_200_and_answer_in_the_ack(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path
) -> None:
    caller = call(core, rtp, tmp_path, "uac_late_offer", "answer", extra=["-d", "1500"])
    rtp.send_to(caller.remote_rtp())
    caller.finish()
    assert audio.heard(rtp.samples(), CORE_NOTES)
    ended = core.wait_event("CallEnded", id=core.call(caller.call_id()))
    sent = rtp.sent_before(caller.ended_at())
    assert ended["stats"]["rx_packets"] == pytest.approx(sent, abs=2)


@pytest.mark.parametrize("event", [96, 102, 127])
def test_telephone_events_keep_the_payload_type_offered(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path, event: int
) -> None:
    caller = call(
        core,
        rtp,
        tmp_path,
        "uac_hangup",
        "answer",
        keys=media(rtp, f"8 {event}", event),
        extra=["-d", "200"],
    )
    caller.finish()
    (answer,) = caller.answers("INVITE", 200)
    assert (answer.field("m=") or "").split()[3:] == ["8", str(event)]
    assert f"a=rtpmap:{event} telephone-event/8000" in answer.text


def test_twenty_calls_one_after_another_leave_nothing(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path
) -> None:
    before = descriptors(core.process.pid)
    caller = call(
        core,
        rtp,
        tmp_path,
        "uac_hangup",
        "answer",
        calls=20,
        rate=20,
        limit=4,
        extra=["-d", "150"],
    )
    assert caller.finish().successful == 20
    assert_media_ports_freed(core)
    assert core.stats()["calls_active"] == 0
    eventually(
        f"descriptors as before: {before}, {descriptors(core.process.pid)}",
        lambda: len(descriptors(core.process.pid)) <= len(before),
        2,
    )


def test_b09_no_ack_and_the_application_hangs_up(unacknowledged: tuple[LocalCore, Sipp]) -> None:
    core, caller = unacknowledged
    caller.finish()
    answers = caller.answers("INVITE", 200)
    (bye,) = caller.received("BYE ")
    assert len(answers) > 8, "the 200 was not repeated"
    assert 30 < bye.at - answers[0].at < 35, f"BYE after {bye.at - answers[0].at:.1f} s"
    assert_media_ports_freed(core)
