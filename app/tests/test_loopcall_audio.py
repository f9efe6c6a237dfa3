# SPDX-License-Identifier: GPL-3.0-or-later
"""loopcall's audio, without a clock and without sockets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voice_edge.loopcall import g711, measure, rtp, rtp_peer, wav
from voice_edge.loopcall.g711 import PCMA, PCMU, Codec, Pcm

FRAME_NS = 20_000_000


def tone(samples: int, level: int = 8000, hertz: float = 440.0) -> Pcm:
    wave: Pcm = (level * np.sin(2 * np.pi * hertz / 8000 * np.arange(samples))).astype(np.int16)
    return wave


def silence(samples: int) -> Pcm:
    return np.zeros(samples, dtype=np.int16)


def arrivals(pcm: Pcm, start_ns: int = 0) -> list[rtp_peer.Arrival]:
    """One packet every 20 ms, none late."""
    return [
        rtp_peer.Arrival(
            start_ns + index * FRAME_NS,
            rtp.RtpPacket(8, index, 5000 + 160 * index, 1, index == 0, b""),
            pcm[index * 160 : (index + 1) * 160],
        )
        for index in range(len(pcm) // 160)
    ]


# G.711


def test_known_code_words() -> None:
    # ITU-T G.711 tables 1a, 1b, 2a, 2b: extremes and the values next to zero.
    assert PCMU.decode(bytes([0x00, 0x80, 0xFF, 0x7F, 0xFE])).tolist() == [-32124, 32124, 0, 0, 8]
    assert PCMA.decode(bytes([0xAA, 0x2A, 0xD5, 0x55])).tolist() == [32256, -32256, 8, -8]
    assert PCMU.encode(np.array([0, 32767, -32768], np.int16)) == bytes([0xFF, 0x80, 0x00])
    assert PCMA.encode(np.array([0, -1, 32767, -32768], np.int16)) == bytes(
        [0xD5, 0x55, 0xAA, 0x2A]
    )


@pytest.mark.parametrize("codec", [PCMA, PCMU], ids=lambda codec: codec.name)
def test_code_words_survive_a_round_trip(codec: Codec) -> None:
    every = bytes(range(256))
    again = codec.encode(codec.decode(every))
    # μ-law has two zeros; all other words are their own.
    assert [a for a, b in zip(every, again, strict=True) if a != b] == (
        [0x7F] if codec is PCMU else []
    )


@pytest.mark.parametrize("codec", [PCMA, PCMU], ids=lambda codec: codec.name)
def test_the_error_is_at_most_half_a_step(codec: Codec) -> None:
    pcm = np.arange(-32000, 32000, 7, dtype=np.int16)
    decoded = codec.decode(codec.encode(pcm)).astype(np.int64)
    # Half a step of the segment: 1/32 of the value, μ-law's bias included.
    assert np.all(np.abs(decoded - pcm) <= (np.abs(pcm.astype(np.int64)) + 132) / 32 + 4)
    assert np.all(np.diff(decoded) >= 0)


def test_decoding_nothing_gives_nothing() -> None:
    assert len(g711.PCMA.decode(b"")) == 0


# RTP


def packet(sequence: int, ssrc: int = 7) -> rtp.RtpPacket:
    return rtp.RtpPacket(8, sequence % 65536, sequence * 160 % 2**32, ssrc, False, b"\xd5" * 160)


def test_a_packet_is_read_as_it_was_written() -> None:
    wanted = rtp.RtpPacket(0, 65535, 2**32 - 1, 0xDEADBEEF, True, b"abc")
    assert rtp.parse(wanted.encode()) == wanted


def test_csrc_extension_and_padding_are_left_out() -> None:
    head = bytearray(packet(1).encode()[:12])
    head[0] = 0x80 | 0x20 | 0x10 | 2
    body = b"\0" * 8 + b"\xbe\xde\0\1" + b"\0" * 4 + b"payload" + b"\0\0\3"
    assert rtp.parse(bytes(head) + body).payload == b"payload"


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x80" * 11,
        b"\x40" + b"\0" * 20,  # version 1
        b"\x9f" + b"\0" * 11,  # 15 CSRCs, none there
        b"\x90" + b"\0" * 11,  # extension flag, no extension
        b"\xa0" + b"\0" * 20,  # padding of 0
        b"\xa0" + b"\0" * 19 + b"\xff",  # padding over the packet
    ],
)
def test_malformed_packets_are_refused(datagram: bytes) -> None:
    with pytest.raises(rtp.RtpParseError):
        rtp.parse(datagram)


def counted(sequences: list[int]) -> rtp.ReceiverStats:
    stats = rtp.ReceiverStats()
    for index, sequence in enumerate(sequences):
        stats.add(packet(sequence), 1 + index * FRAME_NS)
    return stats


def test_loss_duplicates_and_order_across_the_wrap() -> None:
    stats = counted([65533, 65534, 65536, 65535, 65536, 65539])
    assert (stats.packets, stats.duplicates, stats.reordered) == (6, 1, 1)
    assert (stats.expected, stats.lost) == (7, 2)


def test_a_new_source_starts_new_numbers() -> None:
    stats = rtp.ReceiverStats()
    for number in (1, 2, 4):
        stats.add(packet(number), number * FRAME_NS)
    stats.add(packet(60000, ssrc=8), 5 * FRAME_NS)
    assert stats.lost == 1


def test_jitter_of_an_even_stream_is_zero_and_of_an_uneven_one_is_not() -> None:
    even = counted(list(range(50)))
    assert even.jitter_ms == pytest.approx(0.0, abs=1e-6)
    uneven = rtp.ReceiverStats()
    for number in range(200):
        late = 4_000_000 if number % 2 else 0
        uneven.add(packet(number), 1 + number * FRAME_NS + late)
    assert uneven.jitter_ms == pytest.approx(4.0, rel=0.05)
    assert uneven.max_gap_ms == pytest.approx(24.0)


# Measuring


def test_onset_and_end_of_the_agent_are_found_in_the_packet() -> None:
    pcm = np.concatenate([silence(1600 + 60), tone(4000), silence(1600 - 60)])
    sound = measure.heard(arrivals(pcm, start_ns=10_000_000_000))
    first = measure.first_audible_after(sound, 0)
    assert first is not None
    assert (first - 10_000_000_000) / 1e6 == pytest.approx(1660 / 8, abs=10.0)
    last = measure.last_audible_between(sound, first, first + 10**10)
    assert last is not None
    assert (last - 10_000_000_000) / 1e6 == pytest.approx(5660 / 8, abs=10.0)


def test_soft_noise_is_silence() -> None:
    sound = measure.heard(arrivals(tone(8000, level=60)))
    assert measure.first_audible_after(sound, 0) is None


def test_barge_in_is_timed_to_the_last_audible_sample() -> None:
    sound = measure.heard(arrivals(np.concatenate([tone(8000), silence(8000), tone(4000)])))
    took = measure.silence_after_barge_in(sound, 900_000_000, 1_900_000_000)
    assert took == pytest.approx(0.1, abs=0.011)


def test_an_agent_that_goes_on_talking_is_seen() -> None:
    sound = measure.heard(arrivals(tone(24000)))
    took = measure.silence_after_barge_in(sound, 1_000_000_000, 2_000_000_000)
    assert took == pytest.approx(1.0, abs=0.02)


def test_nothing_is_interrupted_when_the_agent_was_silent() -> None:
    sound = measure.heard(arrivals(np.concatenate([tone(1600), silence(8000)])))
    assert measure.silence_after_barge_in(sound, 900_000_000, 2_000_000_000) is None


def test_last_speech_of_an_utterance_is_on_the_wire_with_its_frame() -> None:
    utterance = rtp_peer.Utterance(np.concatenate([tone(800), silence(800)]))
    utterance.frames = [10**9 + index * FRAME_NS for index in range(10)]
    assert (measure.last_speech_ns(utterance) - 10**9) / 1e6 == pytest.approx(100.0, abs=10.0)
    assert measure.first_speech_ns(utterance) == pytest.approx(10**9, abs=10_000_000)


def test_breath_after_a_loud_phrase_is_not_speech() -> None:
    pcm = np.concatenate([tone(1600, level=20000), tone(1600, level=160)])
    bounds = measure.speech_bounds(pcm)
    assert bounds is not None
    assert bounds[1] == pytest.approx(1600, abs=80)


def test_active_speech_begins_after_a_faint_consonant() -> None:
    pcm = np.concatenate([silence(800), tone(1600, level=300), tone(4000, level=12000)])
    bounds = measure.speech_bounds(pcm)
    assert bounds is not None
    assert bounds[0] == pytest.approx(800, abs=80)
    assert measure.active_onset(pcm) == 2400
    assert measure.active_onset(silence(800)) is None
    assert measure.active_onset(silence(3)) is None


def test_a_silent_utterance_has_no_last_word() -> None:
    with pytest.raises(ValueError, match="silent"):
        measure.last_speech_ns(rtp_peer.Utterance(silence(160), [1]))


def test_pieces_are_cut_at_pauses() -> None:
    pcm = np.concatenate([tone(2000), silence(2000), tone(2000), silence(8000), tone(800)])
    pieces = measure.speech_pieces(pcm, pause_s=0.7)
    assert [round(first / 1000) for first, _ in pieces] == [0, 14]
    assert measure.speech_pieces(silence(8000)) == []


# WAV


def test_both_directions_lie_at_their_times(tmp_path: Path) -> None:
    sent = [rtp_peer.Departure(index * FRAME_NS, silence(160)) for index in range(20)]
    came = arrivals(tone(1600), start_ns=100_000_000)
    jittered = [
        rtp_peer.Arrival(one.at_ns + (index % 3) * 5_000_000, one.packet, one.pcm)
        for index, one in enumerate(came)
    ]
    left, right = wav.both_directions(sent, jittered)
    assert len(left) == 20 * 160
    assert not right[:800].any()
    assert np.array_equal(right[800:2400], tone(1600)), "jitter must not tear the sound"
    path = tmp_path / "call.wav"
    wav.write(path, [left, right])
    again = wav.read(path)
    assert np.array_equal(again[1], np.pad(right, (0, len(left) - len(right))))
    assert list(tmp_path.iterdir()) == [path], "no half-written file stays"


def test_a_jump_of_the_timestamps_is_followed() -> None:
    came = arrivals(tone(1600))
    moved = [
        rtp_peer.Arrival(
            one.at_ns,
            rtp.RtpPacket(8, index, one.packet.timestamp + 80_000, 1, False, b""),
            one.pcm,
        )
        if index >= 5
        else one
        for index, one in enumerate(came)
    ]
    _, right = wav.both_directions([], moved)
    assert len(right) == 1600
