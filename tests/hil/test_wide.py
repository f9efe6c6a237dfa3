# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls on G.722 with recorded speech of 16 kHz, against a peer whose codec is spandsp's."""

from __future__ import annotations

import array
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from core.reference import g722
from hil.drivers.agent import LocalAgent
from hil.drivers.local import LocalCore
from hil.peers import audio, wide
from hil.peers.models import RATE as VOICE_RATE
from hil.peers.models import Models
from hil.peers.phone import Phone, PhoneCall, body_of
from hil.peers.process import eventually
from hil.peers.rtp import FRAME, Packet

ALL = "PCMA,PCMU,G722"
CALLER, AGENT = "005", "002"
NOTES = (500.0, 700.0, 1200.0)  # the core's
TUNE = (440.0, 620.0, 910.0)  # the telephone's


@pytest.fixture(scope="module")
def speaking(
    start_core: Callable[..., LocalCore], tmp_path_factory: pytest.TempPathFactory
) -> LocalCore:
    """A core that says recorded speech of 16 kHz."""
    path = tmp_path_factory.mktemp("voice") / "agent.wav"
    audio.write_wav(path, wide.speech(AGENT), rate=wide.RATE)
    return start_core(codecs=ALL, voice=path)


@pytest.fixture(scope="module")
def singing(start_core: Callable[..., LocalCore]) -> LocalCore:
    """A core that plays its notes."""
    return start_core(codecs=ALL)


@pytest.fixture
def phone(singing: LocalCore) -> Iterator[Phone]:
    """A telephone that plays the tune, at either rate."""
    narrow = audio.melody(TUNE, 0.5)
    broad = audio.melody(TUNE, 0.5, rate=wide.RATE)
    with Phone(singing.sip, play=narrow, wide=broad, payload_type=audio.G722) as one:
        yield one


def number_of(core: LocalCore, call: PhoneCall) -> int:
    return core.call(call.call_id)


def said_by_the_core(coded: bytes, voice: array.array[int]) -> int:
    """After how many frames of silence the core said `voice`, byte for byte; AssertionError if it did not.

    The encoder remembers, so that a single wrong bit before would change what follows.
    """
    silence = array.array("h", [0] * 2 * FRAME)
    for frames in range(150):
        encoder = g722.Encoder()
        want = b"".join(encoder.encode(silence) for _ in range(frames)) + encoder.encode(voice)
        if coded[: len(want)] == want:
            return frames
    raise AssertionError("what the core sent is not what spandsp makes of its voice")


def test_recorded_speech_is_heard_wide_both_ways(speaking: LocalCore) -> None:
    caller, agent = wide.speech(CALLER), wide.speech(AGENT)
    pause = array.array("h", [0] * 2 * wide.RATE)
    with Phone(speaking.sip, wide=caller + pause, payload_type=audio.G722) as one:
        call = one.new("answer")
        answer = call.call(formats="9 8")
        assert "RTP/AVP 9\r\n" in body_of(answer)
        number = number_of(speaking, call)
        assert speaking.wait_event("answered", id=number)["rate"] == 16_000
        time.sleep(len(caller) / wide.RATE + 1.5)
        heard = call.rtp.wide_samples()
        coded = b"".join(packet.payload for packet in call.rtp.packets)
        call.bye()
    ended = speaking.wait_event("CallEnded", id=number)
    assert (ended["stats"]["codec"], ended["stats"]["rate"]) == ("G722", 16_000)

    # What the core sent: bit by bit that of an encoder which shares no code with its own.
    assert call.rtp.missing() == 0, "the machine lost packets"
    said_by_the_core(coded, agent)
    score, at = wide.likeness(heard, agent)
    assert score > 0.99, f"the telephone heard the agent's voice to {score:.3f}"
    for low, high in ((300, 3400), (4500, 7000)):
        got = wide.power(heard[at : at + len(agent)], low, high)
        assert got == pytest.approx(wide.power(agent, low, high), abs=2), f"{low} to {high} Hz"

    # What the core heard, as recorded: each stretch of the caller's voice, and what lies above 4 kHz.
    recording = Path(speaking.wait_event("answered", id=number)["recording"])
    rate, (left, right) = audio.read_wav(recording)
    assert rate == 16_000
    decoded = g722.Decoder().decode(call.rtp.coded)
    scores = [
        wide.likeness(left, part.tolist())[0] for part in wide.stretches(decoded[: len(caller)])
    ]
    # A machine under load may conceal a frame here and there.
    assert sorted(scores)[len(scores) // 2] > 0.98, scores
    _, at = wide.likeness(left, decoded[: wide.RATE])
    got = wide.power(left[at : at + len(caller)], 4500, 7000)
    assert got == pytest.approx(wide.power(caller, 4500, 7000), abs=3)
    score, _ = wide.likeness(right, agent)
    assert score > 0.999, "the agent's voice in the recording is what was played"

    # Voice activity at 16 kHz, and its audio at the call's rate.
    speech = [e for e in speaking.events("SpeechEnded") if e["id"] == number]
    assert speech, "nobody was heard to speak"
    told = sum(event["samples"] for event in speech) / wide.RATE
    spoken = sum(
        end["at_ns"] - start["at_ns"]
        for start, end in zip(
            [e for e in speaking.events("SpeechStarted") if e["id"] == number], speech, strict=False
        )
    )
    # 300 ms of pre-roll and the pause that ends it come with it.
    assert 0.2 < told - spoken / 1e9 < 1.2 * len(speech)


def test_the_offer_of_the_core_names_g722_where_it_was_configured(singing: LocalCore) -> None:
    with Phone(singing.sip, wide=audio.melody(TUNE, 0.5, rate=wide.RATE), payload_type=9) as one:
        one.on_invite = lambda call, _: one.answer(call, formats="9")
        singing.dial(one.uri(), "wait1500.hangup")
        call = one.wait_incoming()
        assert "RTP/AVP 8 0 9 101\r\n" in body_of(call.invite)
        assert "a=rtpmap:9 G722/8000\r\n" in body_of(call.invite)
        assert " 13 " not in body_of(call.invite), "comfort noise was not asked for"
        call.wait_request("BYE")
        heard = audio.heard(call.rtp.wide_samples(), NOTES, rate=wide.RATE, purity=0.9)
    assert len(heard) >= 2, heard
    assert audio.in_order(heard, NOTES)


def steps(packets: Sequence[Packet]) -> Iterator[tuple[Packet, Packet]]:
    """Neighbours by sequence number of one SSRC."""
    by_number = {packet.sequence: packet for packet in packets}
    for packet in packets:
        following = by_number.get(packet.sequence + 1 & 0xFFFF)
        if following is not None:
            yield packet, following


@pytest.mark.parametrize("kinds", [(9, 8, 9), (8, 9, 0)])
def test_b25_a_change_between_wide_and_narrow_leaves_one_stream_and_one_recording(
    singing: LocalCore, phone: Phone, kinds: tuple[int, ...]
) -> None:
    """Field failure B25: one SSRC, a clock that goes on, no marker in mid-stream."""
    call = phone.new("answer")
    call.rtp.payload_type = kinds[0]
    call.call(formats=str(kinds[0]))
    number = number_of(singing, call)
    for kind in kinds[1:]:
        time.sleep(2.2)
        call.rtp.payload_type = kind
        answer = call.reinvite(formats=str(kind))
        assert f"RTP/AVP {kind}\r\n" in body_of(answer)
    time.sleep(2.2)
    packets = list(call.rtp.packets)
    call.bye()
    rate = 16_000 if kinds[0] == audio.G722 else 8_000
    ended = singing.wait_event("CallEnded", id=number)
    assert ended["stats"]["rate"] == rate
    assert ended["stats"]["rx_malformed"] == 0

    assert {packet.ssrc for packet in packets} == {packets[0].ssrc}
    assert {packet.payload_type for packet in packets} == set(kinds)
    for one, following in steps(packets):
        assert following.timestamp - one.timestamp & 0xFFFFFFFF == FRAME
        assert not following.marker
    for kind in set(kinds):
        part = [packet for packet in packets if packet.payload_type == kind]
        if kind == audio.G722:
            # From the first packet of each run on, as the decoder of a telephone would start.
            first = (
                next(i for i, p in enumerate(part) if i and p.sequence - part[i - 1].sequence != 1)
                if kinds.count(kind) > 1
                else len(part)
            )
            run = audio.heard(call.rtp.wide_samples(part[:first]), NOTES, rate=16_000, purity=0.9)
        else:
            run = audio.heard(call.rtp.samples(part), NOTES, purity=0.9)
        assert len(run) >= 3, run
        assert audio.in_order(run, NOTES), (kind, run)

    recording = Path(singing.wait_event("answered", id=number)["recording"])
    recorded, (left, right) = audio.read_wav(recording)
    assert recorded == rate
    for samples, notes in ((left, TUNE), (right, NOTES)):
        run = audio.heard(samples, notes, rate=rate, purity=0.9)
        # Three stretches of 2.2 s: whoever took one rate for the other would hear an octave off.
        assert len(run) >= 10, run
    assert audio.in_order(audio.heard(right, NOTES, rate=rate, purity=0.9), NOTES)


def test_b25_after_a_hold_the_clock_has_run_on_and_the_first_packet_is_marked(
    singing: LocalCore, phone: Phone
) -> None:
    """Field failure B25, the sender's side of a hold, on G.722."""
    call = phone.new("answer")
    call.call(formats="9")
    time.sleep(1.0)
    call.reinvite("inactive", formats="9")
    time.sleep(0.3)
    before = list(call.rtp.packets)
    time.sleep(1.7)
    assert len(call.rtp.packets) == len(before), "packets on hold"
    call.reinvite(formats="9")
    time.sleep(1.0)
    packets = list(call.rtp.packets)
    call.bye()
    last, first = before[-1], packets[len(before)]
    assert first.ssrc == last.ssrc
    assert first.sequence == last.sequence + 1 & 0xFFFF
    assert first.marker
    assert sum(packet.marker for packet in packets) == 2  # the first of all, and this one
    elapsed = (first.timestamp - last.timestamp & 0xFFFFFFFF) / 8000
    assert elapsed == pytest.approx(first.at - last.at, abs=0.15)


def test_barge_in_on_a_wide_call(tmp_path: Path) -> None:
    """The whole agent: it is interrupted by recorded speech on G.722, and its recogniser gets 16 kHz."""
    pause = array.array("h", [0] * 3 * wide.RATE)
    with Models(spoken_s=30) as models:
        agent = LocalAgent(tmp_path, models.url)
        try:
            with Phone(
                agent.wait_ready(), wide=pause + wide.speech(CALLER) + pause, payload_type=9
            ) as one:
                call = one.new("agent")
                call.call(formats="9 8")
                began = time.monotonic()
                eventually("the agent's voice", lambda: _talks(call, time.monotonic() - 0.3), 3)
                # The voice begins 3 s after the telephone began to send.
                spoke_at = began + 3.0
                time.sleep(max(0.0, spoke_at - 0.2 - time.monotonic()))
                assert _talks(call, spoke_at - 0.5), (
                    "the agent was silent before it was interrupted"
                )
                eventually(
                    "the agent to fall silent",
                    lambda: (
                        time.monotonic() > spoke_at + 0.3
                        and not _talks(call, time.monotonic() - 0.3)
                    ),
                    2.5,
                )
                eventually("a transcription", lambda: models.rates, 8)
                call.bye()
        finally:
            agent.process.stop(5)
    assert models.rates[0] == 16_000
    assert (
        VOICE_RATE == 24_000
    )  # the voice is resampled to the line, and loses what is above 8 kHz only
    (recording,) = agent.recordings.glob("*.wav")
    assert audio.read_wav(recording)[0] == 16_000


def _talks(call: PhoneCall, since: float) -> bool:
    """Whether the agent was audible since then."""
    packets = call.rtp.since(since)
    heard = call.rtp.wide_samples(packets)
    # A decoder that starts in mid-stream is right after a few ms.
    return bool(heard) and max(abs(sample) for sample in heard[320:] or [0]) > 600
