# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP and RTCP that broke others: new SSRCs, timestamps that jump, intruders, padding, reports, shared ports."""

from __future__ import annotations

import itertools
import random
import struct
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.callee import Callee
from hil.peers.datagrams import Datagrams, field, status_of
from hil.peers.process import eventually
from hil.peers.rtp import FRAME, header
from hil.peers.script import ScriptEnd, Talker
from hil.talk import ScriptedCall

OURS, THEIRS = 500.0, 700.0  # notes of two streams


class Peer(ScriptedCall):
    """A call to the core whose RTP the test writes itself."""

    def __init__(
        self, core: LocalCore, name: str, *, host: str = "127.0.0.1", more: str = "", port: int = 0
    ) -> None:
        def offer(ours: int) -> str:
            return (
                f"v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n"
                f"m=audio {port or ours} RTP/AVP 8 0 101\r\n{more}"
                "a=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\n"
            )

        super().__init__(core, name, offer, host=host)

    def end(self) -> dict[str, object]:
        """Hangs up once all was read; the core's final counters."""
        self.rtp.listen(0.1)
        self.dialog.end()
        ended = self.core.wait_event("CallEnded", id=self.number)
        stats = ended["stats"]
        assert isinstance(stats, dict)
        return stats

    def heard(self) -> array[int]:
        """What the core recorded of us."""
        _, (left, _) = audio.read_wav(Path(str(self.answered["recording"])))
        return left


def longest_without(samples: Sequence[int], notes: Sequence[float]) -> float:
    """Longest time between the first and the last of the notes in which none of them is heard, s."""
    size = 160  # 20 ms: a whole number of periods of 500 and 700 Hz
    here = [
        any(audio.share(samples[at : at + size], note) > 0.9 for note in notes)
        for at in range(0, len(samples) - size, size)
    ]
    first, last = here.index(True), len(here) - 1 - here[::-1].index(True)
    runs = [len(list(run)) for good, run in itertools.groupby(here[first:last]) if not good]
    return max(runs, default=0) * 0.02


def test_b23_a_new_ssrc_with_a_sequence_9000_lower_is_heard_within_100_ms(core: LocalCore) -> None:
    with Peer(core, "b23") as peer:
        first = Talker(sequence=30_000)
        before = list(first.say(list(audio.tone(OURS, 5.0))))
        second = Talker(ssrc=0x5EED0002, sequence=first.sequence - 9000, timestamp=77, at=first.at)
        peer.send([*before, *second.say(list(audio.tone(THEIRS, 2.0)))])
        stats = peer.end()
        assert stats["ssrc_changes"] == 1
        assert stats["rx_lost"] == 0, stats
        left = peer.heard()
        assert longest_without(left, (OURS, THEIRS)) < 0.1
        assert audio.heard(left, (OURS, THEIRS)) == [OURS, THEIRS]


@pytest.mark.parametrize("seconds", [30, -30])
def test_b25_a_timestamp_jump_without_marker_leaves_no_gap_of_200_ms(
    core: LocalCore, seconds: int
) -> None:
    with Peer(core, f"b25{seconds}") as peer:
        talker = Talker()
        packets = list(talker.say(list(audio.tone(OURS, 2.0))))
        talker.timestamp = talker.timestamp + seconds * 8000 & 0xFFFFFFFF
        peer.send([*packets, *talker.say(list(audio.tone(OURS, 2.0)))])
        stats = peer.end()
        assert stats["rx_lost"] == 0, stats
        assert isinstance(stats["jitter_ms"], int | float)
        assert stats["jitter_ms"] < 20, "the jump was taken for jitter"
        assert longest_without(peer.heard(), (OURS,)) < 0.2


def test_b33_an_intruder_is_not_heard_and_draws_no_packet(core: LocalCore) -> None:
    with Peer(core, "b33", host="127.0.0.2") as peer, ScriptEnd("127.0.0.3") as intruder:
        remote = peer.dialog.remote_rtp
        good, bad = Talker(), Talker(ssrc=0xBAD, sequence=1)
        mine = good.say(list(audio.tone(OURS, 3.0)))
        theirs = bad.say(list(audio.tone(THEIRS, 3.0)))
        # The intruder begins, and sends between any two packets of the peer.
        merged = []
        for (at, data), (_, other) in zip(mine, theirs, strict=True):
            merged += [(at, intruder, other), (at + 0.01, peer.rtp, data)]
        began = time.monotonic()
        for at, end, data in merged:
            peer.rtp.listen(began + at - time.monotonic())
            intruder.listen(0)
            end.send(data, remote)
        peer.rtp.listen(0.1)
        intruder.listen(0)
        assert not intruder.received, "the core sent to the intruder"
        assert len(peer.rtp.rtp()) > 140
        stats = peer.end()
        assert stats["rx_foreign"] == 150
        assert audio.heard(peer.heard(), (OURS, THEIRS)) == [OURS]


def test_b33_the_peers_real_port_is_learnt_and_its_host_keeps_it(core: LocalCore) -> None:
    """RFC 4961 with the guard of RFC 7362: the SDP's port is another one than the peer sends from."""
    with ScriptEnd() as named, Peer(core, "b33-port", port=named.port) as peer:
        talker = Talker()
        peer.send(talker.say(list(audio.tone(OURS, 1.0))))
        named.listen(0.1)
        early = len(named.rtp())
        assert early < 10, "the core went on to send to the port of the SDP"
        assert len(peer.rtp.rtp()) > 40
        assert all(packet.source == peer.dialog.remote_rtp for packet in peer.rtp.rtp())
        with ScriptEnd() as other:
            talker.at, stranger = 0.0, Talker(ssrc=0xBAD)
            mine = talker.say(list(audio.tone(OURS, 0.5)))
            theirs = stranger.say(list(audio.tone(THEIRS, 0.5)))
            for (at, data), (_, wrong) in zip(mine, theirs, strict=True):
                peer.send([(0.0 if at == 0 else 0.02, data)])
                other.send(wrong, peer.dialog.remote_rtp)
            other.listen(0.1)
            assert not other.rtp(), "the core followed a second source"
        assert peer.end()["rx_foreign"] == 25


def test_b35_padding_extension_and_csrc_in_all_combinations_leave_the_pcm_as_it_is(
    core: LocalCore,
) -> None:
    rng = random.Random(35)
    packets, frames = [], []
    combinations = itertools.product((0, 1, 4, 255), (None, 0, 1, 7), range(16))
    for count, (padding, words, csrc) in enumerate(combinations):
        # Each frame is known by its content wherever the play-out put it.
        payload = bytes(rng.randrange(256) for _ in range(FRAME))
        first = 0x80 | csrc | (0x10 if words is not None else 0) | (0x20 if padding else 0)
        data = header(audio.A_LAW, 100 + count, 9000 + count * FRAME, 0xAB, first_byte=first)
        data += rng.randbytes(4 * csrc)
        if words is not None:
            data += struct.pack("!HH", 0xBEDE, words) + rng.randbytes(4 * words)
        data += payload
        if padding:
            data += bytes(padding - 1) + bytes([padding])
        packets.append((count * 0.02, data))
        frames.append(audio.decode(payload, audio.A_LAW).tobytes())
    with Peer(core, "b35") as peer:
        peer.send(packets)
        for count in (0, 200, 255):  # no count, and counts beyond what follows the header
            data = header(audio.A_LAW, 400 + count, 0, 0xAB, first_byte=0xA0)
            peer.rtp.send(data + bytes(FRAME - 1) + bytes([count]), peer.dialog.remote_rtp)
        stats = peer.end()
        assert (stats["rx_packets"], stats["rx_malformed"]) == (len(packets), 3)
        heard = peer.heard().tobytes()
        found = [heard.find(frame) for frame in frames]
        # On a busy machine the play-out may stretch or shorten a frame; none may be altered otherwise.
        whole = [place for place in found if place >= 0]
        assert len(whole) >= len(frames) - 16, (
            f"{len(whole)} of {len(frames)} frames are in the recording"
        )
        assert whole == sorted(whole)


def test_packets_of_a_payload_type_nobody_named_are_counted_and_not_heard(core: LocalCore) -> None:
    with Peer(core, "wrong-type") as peer:
        talker, other = Talker(), Talker(payload_type=audio.A_LAW, ssrc=0xBAD)
        mine = list(talker.say(list(audio.tone(OURS, 2.0))))
        wrong = [
            (at, data[:1] + bytes([99]) + data[2:])
            for at, data in other.say(list(audio.tone(THEIRS, 2.0)))
        ]
        peer.send(sorted([*mine, *wrong], key=lambda packet: packet[0]))
        stats = peer.end()
        assert (stats["rx_wrong_type"], stats["ssrc_changes"]) == (100, 0)
        assert audio.heard(peer.heard(), (OURS, THEIRS)) == [OURS]


def test_a_peer_that_takes_our_ssrc_gets_another_one_from_us(core: LocalCore) -> None:
    with Peer(core, "collision") as peer:
        peer.rtp.listen(0.3)
        ours = peer.rtp.rtp()[-1].ssrc
        talker = Talker(ssrc=ours)
        peer.send(talker.say(list(audio.tone(OURS, 1.5))))
        after = peer.rtp.rtp()[-1].ssrc
        assert after != ours
        assert {p.ssrc for p in peer.rtp.rtp()} == {ours, after}
        peer.end()
        assert audio.heard(peer.heard(), (OURS,)) == [OURS]


def report_block(ssrc: int, *, fraction: int, lost: int, highest: int, jitter: int) -> bytes:
    return struct.pack("!IIIIII", ssrc, fraction << 24 | lost, highest, jitter, 0, 0)


def receiver_report(about: bytes, ssrc: int = 0x5EED0001) -> bytes:
    """RR with one block, and the CNAME every compound has (RFC 3550 section 6.1)."""
    report = struct.pack("!BBHI", 0x81, 201, 7, ssrc) + about
    return report + struct.pack("!BBHI", 0x81, 202, 2, ssrc) + bytes([1, 1, 0x61, 0])


def test_the_score_of_what_the_peer_hears_is_that_of_its_reports(core: LocalCore) -> None:
    with Peer(core, "reports") as peer:
        talker = Talker()
        peer.send(talker.say(list(audio.tone(OURS, 2.0))))
        packets = peer.rtp.rtp()
        block = report_block(
            packets[0].ssrc, fraction=25, lost=10, highest=packets[-1].sequence, jitter=80
        )
        remote = peer.dialog.remote_rtp
        peer.rtp.send(receiver_report(block), (remote[0], remote[1] + 1), rtcp=True)
        # A stranger's report is believed by nobody.
        with ScriptEnd("127.0.0.3") as stranger:
            lie = report_block(
                packets[0].ssrc, fraction=255, lost=90, highest=packets[-1].sequence, jitter=9999
            )
            stranger.send(receiver_report(lie), (remote[0], remote[1] + 1), rtcp=True)
            time.sleep(0.1)
        stats = peer.end()
        assert (stats["remote_lost"], stats["remote_jitter_ms"]) == (10, 10.0)
        mos_rx, mos_tx = stats["mos_rx"], stats["mos_tx"]
        assert isinstance(mos_rx, float)
        assert isinstance(mos_tx, float)
        # 10 of 100: 95 * 10 / (10 + 25.1) = 27.1 of R.
        assert mos_rx > 4.2
        assert 3.1 < mos_tx < 3.6, mos_tx


@pytest.mark.parametrize(
    ("name", "more", "place"),
    [("mux", "a=rtcp-mux\r\n", "rtp"), ("beside", "", "rtcp"), ("off", "b=RS:0\r\nb=RR:0\r\n", "")],
)
@pytest.mark.slow
def test_rtcp_goes_where_the_offer_puts_it(
    core: LocalCore, name: str, more: str, place: str
) -> None:
    # A bandwidth line comes before the attributes (RFC 8866 section 9), as all of `more` does here.
    with Peer(core, f"rtcp-{name}", more=more) as peer:
        assert (b"a=rtcp-mux" in peer.dialog.answer) == (name == "mux")
        talker = Talker()
        peer.send(talker.say(list(audio.tone(OURS, 8.0))))  # a report comes within 7.5 s
        reports = [d for d in peer.rtp.received if 192 <= d.data[1] <= 223]
        assert {("rtcp" if d.rtcp else "rtp") for d in reports} == ({place} if place else set())
        if place:
            assert all(d.data[1] in (200, 201) for d in reports)
        if name == "mux":
            block = report_block(
                peer.rtp.rtp()[0].ssrc,
                fraction=0,
                lost=4,
                highest=peer.rtp.rtp()[-1].sequence,
                jitter=8,
            )
            peer.rtp.send(receiver_report(block), peer.dialog.remote_rtp)
            time.sleep(0.1)
        stats = peer.end()
        assert stats["remote_lost"] == (4 if name == "mux" else None)


def hold(peer: Peer, direction: str, cseq: int) -> None:
    body = peer.body + f"a={direction}\r\n"
    request = peer.dialog.request("INVITE", cseq=cseq).decode()
    head = request.replace(
        "Content-Length: 0", f"Content-Type: application/sdp\r\nContent-Length: {len(body)}"
    )
    answer = peer.sip.answer_to((head + body).encode())
    assert answer is not None
    assert status_of(answer) == 200, answer
    peer.sip.send(peer.dialog.request("ACK", cseq=cseq))


def timeouts(core: LocalCore, number: int) -> list[float]:
    return [event["silent_s"] for event in core.events("MediaTimeout") if event["id"] == number]


def test_silence_is_told_but_not_on_hold_and_later_after_comfort_noise(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(media_timeout_s=1.5)
    speech = list(audio.tone(OURS, 0.4))
    with Peer(core, "hold") as held, Peer(core, "noise") as noise, Peer(core, "rtcp") as reports:
        for peer in (held, noise, reports):
            peer.send(Talker().say(speech))
        hold(held, "inactive", 2)
        quiet = Talker(sequence=20_100)
        noise.send([quiet.noise()])
        began = time.monotonic()
        while time.monotonic() - began < 3.2:
            remote = reports.dialog.remote_rtp
            about = report_block(reports.rtp.rtp()[0].ssrc, fraction=0, lost=0, highest=1, jitter=0)
            reports.rtp.send(receiver_report(about), (remote[0], remote[1] + 1), rtcp=True)
            time.sleep(0.4)
        for peer in (held, noise, reports):
            assert timeouts(core, peer.number) == [], field(peer.dialog.answer, "Call-ID")
        hold(held, "sendrecv", 3)
        # Then 1.5 s from the end of hold and of the reports, and 6 s from the comfort noise.
        eventually("silence after hold", lambda: timeouts(core, held.number), 4)
        eventually("silence without reports", lambda: timeouts(core, reports.number), 4)
        eventually("silence after comfort noise", lambda: timeouts(core, noise.number), 6)
        assert timeouts(core, noise.number)[0] == pytest.approx(6.0, abs=0.3)
        assert timeouts(core, held.number)[0] == pytest.approx(1.5, abs=0.3)
        for peer in (held, noise, reports):
            peer.end()


def test_no_silence_is_told_while_a_dialled_telephone_rings(
    start_core: Callable[..., LocalCore],
) -> None:
    """Early media that stays silent is no fault; from the answer on it is."""
    core = start_core(media_timeout_s=1.5)
    with Datagrams(core.sip) as sip, ScriptEnd() as rtp:
        host, port = sip.address
        core.dial(f"sip:ringing@{host}:{port}", "silent")
        callee = Callee(sip)
        body = (
            f"v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n"
            f"m=audio {rtp.port} RTP/AVP 8\r\n"
        )
        callee.respond("183 Session Progress", body)
        rtp.listen(3.0)
        assert not core.events("MediaTimeout")
        callee.answer(body)
        answered = time.monotonic()
        silence = core.wait_event("MediaTimeout", 4)
        assert silence["silent_s"] == pytest.approx(1.5, abs=0.3)
        assert 1.2 < time.monotonic() - answered < 3.0
        core.wait_event("answered", id=silence["id"])
