# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys both ways: one event for each press, on the payload type of the description, by RTP or by INFO."""

from __future__ import annotations

import itertools
import random
import re
import struct
import threading
from collections.abc import Callable

import pytest

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.callee import Callee
from hil.peers.datagrams import Datagrams, field, status_of
from hil.peers.dialog import tag
from hil.peers.process import eventually
from hil.peers.script import KEYS, Datagram, ScriptEnd, Talker, without
from hil.talk import ScriptedCall

SPEECH = list(audio.tone(440, 0.2))


def offer(port: int, formats: str = "8 101", more: str = "") -> str:
    """An SDP whose formats above 95 are telephone-event at 8 kHz."""
    events = [number for number in formats.split() if int(number) > 95]
    lines = [f"a=rtpmap:{number} telephone-event/8000" for number in events]
    return "\r\n".join(
        [
            "v=0",
            "o=- 1 1 IN IP4 127.0.0.1",
            "s=-",
            "c=IN IP4 127.0.0.1",
            "t=0 0",
            f"m=audio {port} RTP/AVP {formats}",
            *lines,
            *([more] if more else []),
            "a=ptime:20",
            "",
        ]
    )


class Line(ScriptedCall):
    """A call to the core from a peer that presses keys; hung up at the end of a test that went well."""

    def __init__(self, core: LocalCore, name: str, formats: str = "8 101") -> None:
        super().__init__(core, name, lambda port: offer(port, formats))

    def pressed(self) -> list[tuple[str, int, str]]:
        """Digit, duration and source of what the core told."""
        told = [event for event in self.core.events("Dtmf") if event["id"] == self.number]
        return [(event["digit"], event["duration_ms"], event["source"]) for event in told]

    def __exit__(self, *why: object) -> None:
        try:
            if why[0] is None:
                self.dialog.end()
        finally:
            self.close()


def spoken(line: Line, digits: str) -> None:
    def told() -> bool:
        return len(line.pressed()) >= len(digits)

    eventually(f"the keys, told {[key[0] for key in line.pressed()]}", told, 3)
    line.rtp.listen(0.4)  # nothing more may come
    assert "".join(key[0] for key in line.pressed()) == digits


def received_keys(end: ScriptEnd, payload_type: int) -> list[tuple[str, list[Datagram]]]:
    """What the core pressed, by the timestamp of its packets."""
    runs: dict[int, list[Datagram]] = {}
    for packet in end.rtp(payload_type):
        runs.setdefault(packet.timestamp, []).append(packet)
    return [(KEYS[run[0].payload[0]], run) for run in runs.values()]


@pytest.mark.parametrize("event_type", [96, 102, 127])
def test_b27_keys_go_both_ways_on_the_payload_type_offered(
    core: LocalCore, event_type: int
) -> None:
    with Line(core, f"b27-{event_type}", f"8 {event_type}") as line:
        talker = Talker(event_type=event_type)
        line.send([*talker.say(SPEECH), *talker.press("5", 0.2), *talker.press("#", 0.1)])
        spoken(line, "5#")
        assert line.pressed() == [("5", 200, "rtp"), ("#", 100, "rtp")]

        core.dtmf(line.number, "1*D", duration_ms=100, gap_ms=80)
        line.rtp.listen(1.2)
        core.wait_event("dtmf_sent", id=line.number)
        runs = received_keys(line.rtp, event_type)
        assert [digit for digit, _ in runs] == ["1", "*", "D"]
        for _, run in runs:
            assert [packet.marker for packet in run] == [True] + [False] * 6
            durations = [struct.unpack_from("!H", packet.payload, 2)[0] for packet in run]
            assert durations == [160, 320, 480, 640, 800, 800, 800]
            assert [packet.payload[1] >> 7 for packet in run] == [0] * 4 + [1] * 3
        everything = line.rtp.rtp()
        steps = {(b.sequence - a.sequence) & 0xFFFF for a, b in itertools.pairwise(everything)}
        assert steps == {1}
        # Audio and keys share one clock, and none of the audio is under a key.
        first = runs[0][1][0]
        before = [p for p in line.rtp.rtp(audio.A_LAW) if p.sequence == first.sequence - 1][-1]
        assert first.timestamp == before.timestamp + 160


def test_b27_the_answer_picks_another_payload_type_than_ours(core: LocalCore) -> None:
    """We offer 101; the peer answers with 96. It gets 96, and may send either."""
    with Datagrams(core.sip) as sip, ScriptEnd() as rtp:
        host, port = sip.address
        core.dial(f"sip:b27@{host}:{port}", "silent")
        callee = Callee(sip)
        assert re.search(rb"a=rtpmap:101 telephone-event/8000", callee.invite), callee.invite
        callee.answer(offer(rtp.port, "8 96"))
        remote = callee.remote_rtp
        number = int(core.wait_event("call", direction="out")["id"])
        core.wait_event("answered", id=number)
        talker = Talker(event_type=96)
        rtp.run([*talker.say(SPEECH), *talker.press("7", 0.1)], remote)
        talker.event_type, talker.at = 101, 0.0
        rtp.run([*talker.press("8", 0.1), *talker.say(SPEECH)], remote)

        def told() -> list[str]:
            return [event["digit"] for event in core.events("Dtmf") if event["id"] == number]

        eventually("both keys", lambda: told() == ["7", "8"], 3)
        core.dtmf(number, "9", duration_ms=60, gap_ms=60)
        rtp.listen(0.5)
        assert [digit for digit, _ in received_keys(rtp, 96)] == ["9"]
        assert not rtp.rtp(101)
        # The call is left to the core's stop at the end of the file.


def test_b29_the_clock_of_events_is_that_of_the_description(
    start_core: Callable[..., LocalCore],
) -> None:
    """G.722 samples at 16 kHz, but its RTP clock, and that of events beside it, is 8000 Hz."""
    core = start_core(codecs="G722,PCMA")
    with Line(core, "b29", "9 101") as line:
        assert re.search(rb"^m=audio \d+ RTP/AVP 9 101\r$", line.dialog.answer, re.MULTILINE)
        talker = Talker()
        line.send([*talker.press("6", 0.2), *talker.press("0", 1.0)])
        spoken(line, "60")
        assert line.pressed() == [("6", 200, "rtp"), ("0", 1000, "rtp")]
        core.dtmf(line.number, "3", duration_ms=200, gap_ms=60)
        line.rtp.listen(0.6)
        ((digit, run),) = received_keys(line.rtp, 101)
        durations = [struct.unpack_from("!H", packet.payload, 2)[0] for packet in run]
        assert (digit, durations[-1], len(run)) == ("3", 1600, 12)
        after = [p for p in line.rtp.rtp(9) if p.sequence == run[-1].sequence + 1]
        assert after[0].timestamp == run[0].timestamp + 12 * 160


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("all starts", range(3)),
        ("all ends", range(5, 12)),
        ("all but one", [0, 1, 2, 4, 5, 6, 7, 8]),
        ("none", []),
    ],
)
def test_each_press_is_told_once_whatever_of_it_is_lost(
    core: LocalCore, name: str, lost: range | list[int]
) -> None:
    with Line(core, f"lost-{name.replace(' ', '-')}") as line:
        talker = Talker()
        packets = list(talker.say(SPEECH))
        for digit in "1122":
            packets += without(talker.press(digit, 0.12), lost)
        line.send([*packets, *talker.say(SPEECH)])
        spoken(line, "1122")


def test_seeded_loss_duplication_and_reordering_change_no_digit(core: LocalCore) -> None:
    rng = random.Random(27)
    digits = "40077#*1199"
    with Line(core, "shuffled") as line:
        talker = Talker()
        packets = list(talker.say(SPEECH))
        for digit in digits:
            press = list(talker.press(digit, 0.1))
            kept = [p for p in press if rng.random() > 0.25] or press[:1]
            packets += kept + [p for p in kept if rng.random() < 0.2]
        packets += talker.say(SPEECH)
        late = [(at + (0.05 if rng.random() < 0.15 else 0), data) for at, data in packets]
        line.send(sorted(late, key=lambda packet: packet[0]))
        spoken(line, digits)


def test_a_key_held_for_twelve_seconds_in_two_segments_is_one(core: LocalCore) -> None:
    with Line(core, "long") as line:
        talker = Talker()
        packets = list(talker.say(SPEECH))
        start, at = talker.timestamp, talker.at
        for count in range(1, 603):
            units = min(count, 600) * 160
            segment = 0xFFFF if units > 0xFFFF else 0
            if units - 160 < 0xFFFF < units:  # the first segment ends full
                packets.append(event(talker, 9, start, 0xFFFF, at))
            end = count >= 600
            packets.append(
                event(talker, 9, start + segment, units - segment, at, end=end, marker=count == 1)
            )
            at += 0.02
        line.send(packets)
        spoken(line, "9")
        assert line.pressed() == [("9", 12_000, "rtp")]


def event(
    talker: Talker,
    code: int,
    timestamp: int,
    duration: int,
    at: float,
    *,
    end: bool = False,
    marker: bool = False,
) -> tuple[float, bytes]:
    payload = struct.pack("!BBH", code, 10 | (0x80 if end else 0), duration)
    _, data = talker._packet(payload, talker.event_type, timestamp, marker=marker)
    return at, data


def test_the_audio_under_a_key_is_silence_and_nothing_is_concealed(core: LocalCore) -> None:
    with Line(core, "quiet") as line:
        talker = Talker()
        tone = list(audio.tone(440, 1.0))
        line.send([*talker.say(tone), *talker.press("3", 0.4, gap=0.0), *talker.say(tone)])
        line.rtp.listen(0.2)
        spoken(line, "3")
    stats = core.wait_event("CallEnded", id=line.number)["stats"]
    # The repeats of the end take the place of two packets of audio; the end of all packets conceals 3.
    assert stats["concealed_frames"] <= 8, stats
    assert stats["rx_lost"] == 0


def body_of(kind: str, digit: str) -> tuple[str, str]:
    bodies = {
        "relay": ("application/dtmf-relay", f"Signal={digit}\r\nDuration=250\r\n"),
        "relay with spaces": ("application/dtmf-relay", f"Signal= {digit} \nDuration= 250\n"),
        "plain": ("application/dtmf", digit),
    }
    return bodies[kind]


def info(line: Line, kind: str, content: str, cseq: int) -> int:
    request = line.dialog.request("INFO", cseq=cseq)
    head = request.decode().replace(
        "Content-Length: 0", f"Content-Type: {kind}\r\nContent-Length: {len(content)}"
    )
    answer = line.sip.answer_to((head + content).encode())
    assert answer is not None, "INFO was not answered"
    return status_of(answer)


@pytest.mark.parametrize("kind", ["relay", "relay with spaces", "plain"])
def test_keys_by_info_are_told(core: LocalCore, kind: str) -> None:
    with Line(core, f"info-{kind.replace(' ', '-')}", "8") as line:
        for place, digit in enumerate("19#*D"):
            assert info(line, *body_of(kind, digit), cseq=10 + place) == 200
        spoken(line, "19#*D")
        wanted = 160 if kind == "plain" else 250
        assert {key[1:] for key in line.pressed()} == {(wanted, "info")}


def test_info_that_is_no_key_is_refused_by_the_book(core: LocalCore) -> None:
    with Line(core, "info-other", "8") as line:
        assert info(line, "application/media_control+xml", "<x/>", 10) == 415
        assert info(line, "application/dtmf-relay", "Signal=x\r\n", 11) == 400
        assert info(line, "application/dtmf-relay", "Signal=1\r\n" * 100, 12) == 400
        empty = line.sip.answer_to(line.dialog.request("INFO", cseq=13))
        assert empty is not None
        assert status_of(empty) == 200
        assert line.pressed() == []


def test_a_peer_that_sends_each_key_both_ways_is_heard_once(core: LocalCore) -> None:
    with Line(core, "both-ways") as line:
        talker = Talker()
        line.send(talker.say(SPEECH))
        for place, digit in enumerate("2255"):
            talker.at = 0.0
            line.send(talker.press(digit, 0.1))
            assert info(line, *body_of("relay", digit), cseq=10 + place) == 200
        spoken(line, "2255")


class Answering(threading.Thread):
    """Answers each INFO with a status and keeps its body."""

    def __init__(self, sip: Datagrams, status: str) -> None:
        super().__init__(daemon=True)
        self.sip, self.status = sip, status
        self.requests: list[bytes] = []
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            request = self.sip.receive(0.1)
            if request is None or not request.startswith(b"INFO"):
                continue
            self.requests.append(request)
            lines = [
                line
                for line in request.split(b"\r\n")
                if line.split(b":")[0] in (b"Via", b"From", b"To", b"Call-ID", b"CSeq")
            ]
            self.sip.send(
                b"\r\n".join(
                    [f"SIP/2.0 {self.status}".encode(), *lines, b"Content-Length: 0", b"", b""]
                )
            )

    def stop(self) -> None:
        self.over.set()
        self.join(2)


def test_keys_go_by_info_to_a_peer_without_telephone_event(core: LocalCore) -> None:
    with Line(core, "info-out", "8") as line:
        peer = Answering(line.sip, "200 OK")
        core.dtmf(line.number, "4#", duration_ms=100, gap_ms=60)
        core.wait_event("dtmf_sent", id=line.number)
        peer.stop()
        assert [field(request, "Content-Type") for request in peer.requests] == [
            "application/dtmf-relay"
        ] * 2
        bodies = [request.partition(b"\r\n\r\n")[2] for request in peer.requests]
        assert bodies == [f"Signal={digit}\r\nDuration=100\r\n".encode() for digit in "4#"]
        assert tag(peer.requests[0], "From") == line.dialog.to_tag


def test_a_peer_that_refuses_info_is_told_as_an_error(core: LocalCore) -> None:
    with Line(core, "info-refused", "8") as line:
        peer = Answering(line.sip, "415 Unsupported Media Type")
        core.dtmf(line.number, "4#")
        failed = core.wait_event("dtmf_failed", id=line.number)
        peer.stop()
        assert (failed["code"], failed["status"]) == ("dtmf.refused", 415)
        assert len(peer.requests) == 1


def test_keys_by_rtp_only_are_an_error_without_telephone_event(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(settings={"dtmf": "rtp"})
    with Line(core, "rtp-only", "8") as line:
        core.dtmf(line.number, "1")
        failed = core.wait_event("dtmf_failed", id=line.number)
        assert failed["code"] == "dtmf.not_negotiated"
        assert info(line, *body_of("relay", "1"), cseq=10) == 200
        line.rtp.listen(0.3)
        assert line.pressed() == []


def test_no_log_shows_a_key(core: LocalCore) -> None:
    """The keys of all tests above passed through this core, whose log is at its most talkative."""
    if not core.events("Dtmf"):
        with Line(core, "log", "8") as line:
            assert info(line, *body_of("relay", "7"), cseq=10) == 200
    log = core.log()
    for word in ("Signal", "digit=", "Dtmf(", "dtmf-relay"):
        assert word not in log, word
