# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets of 10 to 60 ms both ways, keys and comfort noise beside G.711 and G.722."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.reference import g722
from hil.drivers.local import LocalCore
from hil.peers import audio, wide
from hil.peers.datagrams import Datagrams
from hil.peers.process import eventually
from hil.peers.rtp import FRAME, header
from hil.peers.script import Talker
from hil.talk import ScriptedCall

NOTES = (500.0, 700.0, 1200.0)
TUNE = (440.0, 620.0, 910.0)


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    return start_core(codecs="PCMA,PCMU,G722")


class Line(ScriptedCall):
    """A call to the core from a peer that sends packet by packet."""

    def __init__(self, core: LocalCore, name: str, formats: str, more: Sequence[str] = ()) -> None:
        lines = ["a=rtpmap:101 telephone-event/8000", *more]

        def offer(port: int) -> str:
            return (
                "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
                f"m=audio {port} RTP/AVP {formats}\r\n" + "".join(f"{line}\r\n" for line in lines)
            )

        super().__init__(core, name, offer)

    @property
    def answer(self) -> str:
        return self.dialog.answer.partition(b"\r\n\r\n")[2].decode()

    def end(self) -> tuple[dict[str, Any], int, list[Sequence[int]]]:
        """Hangs up: final counters, rate and channels of the recording."""
        self.dialog.end()
        stats = self.core.wait_event("CallEnded", id=self.number)["stats"]
        rate, channels = audio.read_wav(Path(self.answered["recording"]))
        assert isinstance(stats, dict)
        return stats, rate, list(channels)


def narrow_packets(samples: Sequence[int], lengths: Iterator[int]) -> Iterator[tuple[float, bytes]]:
    """A-law in packets of so many ms each, sent when their last sample was spoken."""
    sequence, place = 700, 0
    while place < len(samples):
        part = samples[place : place + 8 * next(lengths)]
        place += len(part)
        head = header(audio.A_LAW, sequence, 90_000 + place - len(part), 0xB31)
        sequence += 1
        yield place / 8000, head + audio.encode(part, audio.A_LAW)


def wide_packets(samples: Sequence[int], lengths: Iterator[int]) -> Iterator[tuple[float, bytes]]:
    talker, place = wide.WideTalker(), 0
    while place < len(samples):
        ms = next(lengths)
        yield from talker.say(samples[place : place + 16 * ms], ms)
        place += 16 * ms


@pytest.mark.parametrize("codec", ["PCMA", "G722"])
def test_b31_packets_of_10_to_60_ms_mix_as_they_come(core: LocalCore, codec: str) -> None:
    """Field failure B31: 40 becomes 20, 10 becomes 60, and no SDP tells."""
    rate = 16_000 if codec == "G722" else 8_000
    tune = audio.melody(TUNE * 2, 0.5, rate=rate)
    shuffled = random.Random(31)
    mixed = itertools.chain(
        [40] * 15,
        [20] * 15,
        [10] * 30,
        [60] * 8,
        iter(lambda: shuffled.choice((10, 20, 30, 40, 60)), 0),
    )
    make = wide_packets if codec == "G722" else narrow_packets
    with Line(core, f"b31-{codec}", "9" if codec == "G722" else "8") as line:
        line.send(make(tune, mixed))
        time.sleep(0.3)
        stats, recorded, (left, _) = line.end()
    assert (stats["codec"], recorded) == (codec, rate)
    assert (stats["rx_lost"], stats["rx_malformed"]) == (0, 0)
    run = audio.heard(left, TUNE, rate=rate, purity=0.9)
    assert len(run) >= 5, run
    assert audio.in_order(run, TUNE)


@pytest.mark.parametrize("codec", ["PCMA", "G722"])
@pytest.mark.parametrize(
    ("lines", "told", "ms"),
    [
        (["a=ptime:10"], 10, 10),
        (["a=ptime:30"], 30, 30),
        (["a=ptime:40"], 40, 40),
        (["a=ptime:60"], 60, 60),
        (["a=maxptime:10"], 20, 10),
        ([], 20, 20),
    ],
)
def test_b31_what_is_sent_has_the_packet_time_of_the_offer(
    core: LocalCore, codec: str, lines: list[str], told: int, ms: int
) -> None:
    """Field failure B31: `a=ptime:30` and the others, honoured and told in the answer."""
    with Line(core, f"ptime-{codec}-{ms}-{told}", "9" if codec == "G722" else "8", lines) as line:
        assert f"a=ptime:{told}\r\n" in line.answer
        line.rtp.listen(2.0)
        packets = line.rtp.rtp()
        line.end()
    assert len(packets) > 1000 // ms
    # One byte for each unit of RTP time, for G.722 too.
    assert {len(packet.payload) for packet in packets} == {8 * ms}
    for one, following in itertools.pairwise(packets):
        if following.sequence == one.sequence + 1 & 0xFFFF:
            assert following.timestamp - one.timestamp & 0xFFFFFFFF == 8 * ms
    span = packets[-1].at - packets[0].at
    assert (len(packets) - 1) * ms / 1000 == pytest.approx(span, abs=0.1)


@pytest.mark.parametrize("event_type", [101, 96])
def test_b29_a_key_beside_g722_lasts_as_long_as_it_was_pressed(
    core: LocalCore, event_type: int
) -> None:
    """Field failure B29: the clock of telephone-event is that of its rtpmap, 8000, though G.722 is 16 kHz."""
    more = ["a=rtpmap:96 telephone-event/8000"] if event_type == 96 else []
    with Line(core, f"b29-{event_type}", f"9 {event_type}", more) as line:
        talker = wide.WideTalker(event_type=event_type)
        speech = audio.tone(440, 0.3, rate=wide.RATE)
        line.send([*talker.say(speech), *talker.press("7", 0.2), *talker.say(speech)])

        def told() -> list[dict[str, object]]:
            return [event for event in core.events("Dtmf") if event["id"] == line.number]

        eventually("the key", told, 3)
        assert [(event["digit"], event["duration_ms"]) for event in told()] == [("7", 200)]

        # And ours: 100 ms are 800 units, whatever the codec.
        core.dtmf(line.number, "3", duration_ms=100, gap_ms=80)
        line.rtp.listen(0.6)
        run = line.rtp.rtp(event_type)
        assert int.from_bytes(run[-1].payload[2:4], "big") == 800
        stats, rate, _ = line.end()
    assert (stats["codec"], rate) == ("G722", 16_000)


def level(samples: Sequence[int]) -> float:
    """dB of a full-scale square wave."""
    return 10 * math.log10(max(sum(s * s for s in samples) / len(samples), 1e-9) / 32768**2)


@pytest.mark.parametrize("codec", ["PCMA", "G722"])
def test_comfort_noise_is_heard_where_the_peer_sends_nothing(core: LocalCore, codec: str) -> None:
    """RFC 3389 on receive: agreed on since it was offered, made at the level that was told."""
    rate, kind = (16_000, "9") if codec == "G722" else (8_000, "8")
    tune = audio.tone(440, 0.6, rate=rate)
    with Line(core, f"cn-{codec}", f"{kind} 13 101") as line:
        assert f"RTP/AVP {kind} 13 101\r\n" in line.answer
        talker = wide.WideTalker() if codec == "G722" else Talker()
        before = [*talker.say(tune), talker.noise(50)]
        talker.at += 1.0
        talker.timestamp += 8000
        line.send([*before, *talker.say(tune)])
        time.sleep(0.3)
        stats, _, (left, _) = line.end()
    assert (stats["rx_malformed"], stats["rx_lost"]) == (0, 0)
    pieces = [level(left[start : start + rate // 10]) for start in range(0, len(left), rate // 10)]
    loud = [place for place, db in enumerate(pieces) if db > -25]
    first, last = loud[0], loud[-1]
    assert last - first > 15, pieces
    # Neither silence nor the tone drawn out: a second of noise at -50.
    quiet = [db for db in pieces[first:last] if db < -30]
    assert sum(abs(db + 50) < 3 for db in quiet) >= 8, pieces
    assert not [db for db in quiet if db < -56], pieces


def test_comfort_noise_is_neither_offered_nor_sent(core: LocalCore) -> None:
    with Line(core, "cn-none", "8 101") as line:
        assert not re.search(r"RTP/AVP .*\b13\b", line.answer)
        line.rtp.listen(1.0)
        assert {packet.payload_type for packet in line.rtp.rtp()} == {audio.A_LAW}
        line.end()


def test_comfort_noise_is_offered_where_it_was_configured(
    start_core: Callable[..., LocalCore],
) -> None:
    willing = start_core(settings={"comfort_noise": True})
    with Datagrams(willing.sip) as sip:
        host, port = sip.address
        willing.dial(f"sip:cn@{host}:{port}", "silent")
        invite = sip.receive(5)
        assert invite is not None
        assert b"RTP/AVP 8 0 13 101\r\n" in invite
        assert b"a=rtpmap:13 CN/8000\r\n" in invite
        copied = [
            line
            for line in invite.partition(b"\r\n\r\n")[0].split(b"\r\n")
            if line.lower().startswith((b"via:", b"from:", b"to:", b"call-id:", b"cseq:"))
        ]
        sip.send(b"\r\n".join([b"SIP/2.0 486 Busy Here", *copied, b"Content-Length: 0", b"", b""]))
        eventually("the dial to fail", lambda: willing.events("dial_failed"), 3)


def test_frames_of_ours_are_whole(core: LocalCore) -> None:
    """What the core plays arrives note by note whatever the packets are cut to."""
    for ms in (10, 30, 60):
        with Line(core, f"whole-{ms}", "9", [f"a=ptime:{ms}"]) as line:
            line.rtp.listen(2.2)
            decoder = g722.Decoder()
            heard = [s for packet in line.rtp.rtp() for s in decoder.decode(packet.payload)]
            line.end()
        run = audio.heard(heard, NOTES, rate=wide.RATE, purity=0.9)
        assert len(run) >= 3, (ms, run)
        assert audio.in_order(run, NOTES), (ms, run)
        assert FRAME == 160
