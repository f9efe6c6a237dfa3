# SPDX-License-Identifier: GPL-3.0-or-later
"""Broken datagrams on the SIP and the media port while a call is up.

The process lives, goes on answering OPTIONS, counts and logs what it threw away, shows no number in the
log, and the call that is up loses nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES, numbers_in
from hil.drivers.local import LocalCore
from hil.peers import audio, broken
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import Dialog
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd, header

SEED = 20260105


@pytest.fixture
def attacker(core: LocalCore) -> Iterator[Datagrams]:
    with Datagrams(core.sip) as datagrams:
        yield datagrams


@pytest.fixture
def call_up(core: LocalCore, rtp: RtpEnd) -> Iterator[Dialog]:
    """A call with audio both ways from before the test to after it; then it is looked into."""
    with Datagrams(core.sip) as caller:
        with Dialog(caller, "up", rtp_port=rtp.port) as dialog:
            number = core.call(dialog.call_id)
            rtp.send_to(dialog.remote_rtp)
            time.sleep(1.2)  # a note or two each way before anything breaks, and after it
            yield dialog
            time.sleep(1.2)
        ended = core.wait_event("CallEnded", id=number)
    assert ended["by_remote"] is True, "the call that was up ended by itself"
    run = audio.heard(rtp.samples(), CORE_NOTES)
    assert len(run) >= 4, f"the caller heard {run}"
    assert audio.in_order(run, CORE_NOTES), f"the caller heard {run}"
    assert rtp.missing() == 0
    assert {packet.source for packet in rtp.packets} == {dialog.remote_rtp}
    recording = Path(core.wait_event("answered", id=number)["recording"])
    _, (left, _) = audio.read_wav(recording)
    run = audio.heard(left, CALLER_NOTES)
    assert len(run) >= 4, f"the core heard {run}"
    assert audio.in_order(run, CALLER_NOTES), f"the core heard {run}"
    assert ended["stats"]["rx_lost"] == 0


def throw(
    core: LocalCore, attacker: Datagrams, datagrams: Iterable[bytes], every: int = 50
) -> list[int]:
    """Send them all, asking in between whether the core still answers; statuses of what came back."""
    statuses = []
    for number, datagram in enumerate(datagrams, 1):
        attacker.send(datagram)
        if number % every == 0:
            assert core.alive(), (
                f"dead after datagram {number}: {datagram!r}\n{core.process.tail()}"
            )
            while (answer := attacker.receive(0.001)) is not None:
                statuses.append(status_of(answer))
            assert attacker.alive() == 200
    assert attacker.alive() == 200
    assert core.alive()
    return statuses


def assert_counted_and_logged(core: LocalCore, before: int, log_before: int) -> None:
    assert core.stats()["sip_malformed"] > before, "nothing was counted"
    added = core.log()[log_before:]
    assert "not SIP" in added, f"the log does not say what happened:\n{added[-2000:]}"
    assert not numbers_in(added)


def test_invite_cut_after_every_byte(core: LocalCore, attacker: Datagrams, call_up: Dialog) -> None:
    before, log = core.stats()["sip_malformed"], len(core.log())
    invite = attacker.invite(user="reject486", call_id="cut@127.0.0.1")
    statuses = throw(core, attacker, broken.truncated(invite))
    assert 200 not in statuses
    assert_counted_and_logged(core, before, log)


def test_a_thousand_mutations(core: LocalCore, attacker: Datagrams, call_up: Dialog) -> None:
    before, log = core.stats()["sip_malformed"], len(core.log())
    invite = attacker.invite(user="reject486", call_id="mutated@127.0.0.1")
    throw(core, attacker, broken.mutated(invite, SEED, 1000))
    assert_counted_and_logged(core, before, log)


def test_mutated_requests_inside_the_call(
    core: LocalCore, attacker: Datagrams, call_up: Dialog
) -> None:
    """ACK and INFO of the very dialog, broken: they reach the dialog's parser and leave the call alone."""
    for number, method in enumerate(("ACK", "INFO", "UPDATE", "REFER"), 1):
        request = call_up.request(method, cseq=100 + number)
        throw(core, attacker, broken.mutated(request, SEED + number, 100))


def test_random_garbage(core: LocalCore, attacker: Datagrams, call_up: Dialog) -> None:
    before, log = core.stats()["sip_malformed"], len(core.log())
    throw(core, attacker, broken.garbage(SEED, 500))
    assert_counted_and_logged(core, before, log)


def test_b03_formats_that_are_no_payload_type(core: LocalCore, attacker: Datagrams) -> None:
    for name, invite in broken.payload_types(attacker):
        answer = attacker.answer_to(invite, 2)
        assert answer, f"{name}: no answer"
        assert status_of(answer) in (400, 488), f"{name}: {status_of(answer)}"
    assert attacker.alive() == 200


def test_b03_nul_in_fmtp(core: LocalCore, attacker: Datagrams) -> None:
    (invite,) = [data for name, data in broken.offers(attacker) if name == "NUL in fmtp"]
    answer = attacker.answer_to(invite, 2)
    assert answer is None or status_of(answer) in (400, 488), answer
    assert attacker.alive() == 200


@pytest.mark.parametrize("kind", [broken.offers, broken.requests])
def test_broken_requests_never_open_a_call(
    core: LocalCore,
    attacker: Datagrams,
    call_up: Dialog,
    kind: Callable[[Datagrams], Iterator[broken.Named]],
) -> None:
    for name, datagram in kind(attacker):
        try:
            attacker.send(datagram)
        except OSError as error:
            pytest.fail(f"{name}: {error}")
        answer = attacker.receive(0.05)
        assert answer is None or status_of(answer) != 200, f"{name}: {answer!r}"
        assert core.alive(), f"dead after {name}\n{core.process.tail()}"
        assert attacker.alive() == 200, name
    try:
        eventually("only the call that is up", lambda: core.stats()["calls_active"] == 1, 2)
    except AssertionError as error:
        pytest.fail(f"{error}: {core.stats()}\n{core.process.tail(40)}")


def test_broken_rtp_is_counted_and_the_call_goes_on(
    core: LocalCore, rtp: RtpEnd, call_up: Dialog
) -> None:
    before = core.stats()["rx_malformed"]
    count = 0
    for _ in range(5):
        for _, datagram in broken.rtp_packets():
            rtp.inject(datagram, call_up.remote_rtp)
            count += 1
            time.sleep(0.005)
        for datagram in broken.garbage(SEED, 20):
            if datagram[:1] and datagram[0] >> 6 != 2:  # else it would be RTP of another source
                rtp.inject(datagram, call_up.remote_rtp)
    rtp.inject(broken.stun(), call_up.remote_rtp)
    time.sleep(0.1)
    counted = core.stats()["rx_malformed"] - before
    assert counted >= count, f"{counted} counted of {count} sent"


def test_broken_rtcp_leaves_the_call_alone(core: LocalCore, rtp: RtpEnd, call_up: Dialog) -> None:
    before = core.stats()["rx_malformed"]
    host, port = call_up.remote_rtp
    for _ in range(3):
        for _, datagram in broken.rtcp_packets():
            rtp.inject_rtcp(datagram, (host, port + 1))
        for datagram in broken.garbage(SEED + 1, 50):
            rtp.inject_rtcp(datagram, (host, port + 1))
    time.sleep(0.1)
    assert core.stats()["rx_malformed"] > before, "broken RTCP is not counted"


def test_b33_rtp_from_a_stranger_is_not_heard_and_draws_nothing(
    core: LocalCore, rtp: RtpEnd, call_up: Dialog
) -> None:
    """Valid packets, a tone, from 127.0.0.3: the recording and the target stay the caller's."""
    noise = audio.encode(audio.tone(2000, 0.02, level=16000), audio.A_LAW)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.3", 0))
        stranger.setblocking(False)
        for number in range(100):
            packet = header(audio.A_LAW, number, number * 160, 0xBAD) + noise
            stranger.sendto(packet, call_up.remote_rtp)
            time.sleep(0.01)
        with pytest.raises(BlockingIOError):
            stranger.recv(2048)


def test_b23_new_ssrc_with_a_far_lower_sequence_is_heard_at_once(
    core: LocalCore, caller_melody: list[int]
) -> None:
    """Sequence numbers of the new source lie 9,000 below; 100 ms is what may be lost of it."""
    with (
        Datagrams(core.sip) as caller,
        RtpEnd(play=caller_melody) as rtp,
        Dialog(caller, "ssrc", rtp_port=rtp.port) as dialog,
    ):
        number = core.call(dialog.call_id)
        rtp.sequence = 20000
        rtp.send_to(dialog.remote_rtp)
        time.sleep(3)
        rtp.ssrc, rtp.sequence = 0x5EC0D, 20000 - 9000
        time.sleep(3)
    core.wait_event("CallEnded", id=number)
    _, (left, _) = audio.read_wav(Path(core.wait_event("answered", id=number)["recording"]))
    run = audio.heard(left, CALLER_NOTES)
    assert audio.in_order(run, CALLER_NOTES), f"the core heard {run}"
    assert len(run) >= 11, f"the core heard {run}"
