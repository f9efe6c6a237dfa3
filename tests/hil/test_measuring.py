# SPDX-License-Identifier: GPL-3.0-or-later
"""The measuring itself, without a core: SIPp's counters agree with each other, and a lost packet shows."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.load import write_tone
from hil.peers import audio
from hil.peers.impair import Impairment, Proxy
from hil.peers.process import Process, eventually
from hil.peers.rtp import RtpEnd
from hil.peers.sipp import Sipp
from hil.peers.wreckage import Watch, broken_recordings


def test_what_sipp_streams_is_what_another_sipp_echoes(tmp_path: Path) -> None:
    calls, seconds = 20, 3
    callee = Sipp(
        "self_test_stream",
        tmp_path / "callee",
        calls=calls,
        timeout_s=seconds + 15,
        count_rtp=True,
        expand={"file": str(write_tone(tmp_path))},
    )
    eventually("SIPp to listen", (tmp_path / "callee" / "self_test_stream.csv").exists, 5)
    caller = Sipp(
        "load_echo",
        tmp_path / "caller",
        remote=callee.address,
        calls=calls,
        rate=20,
        timeout_s=seconds + 15,
        echo=True,
        count_rtp=True,
        extra=["-d", str(seconds * 1000)],
    )
    echoed = caller.finish().rtp_echoed
    sent = callee.finish().rtp_sent
    assert echoed == sent
    assert abs(sent - calls * seconds * 50) < calls * 5


def test_the_rtp_end_notices_every_packet_a_network_takes() -> None:
    with (
        RtpEnd() as listener,
        RtpEnd(play=audio.melody(CALLER_NOTES, 0.2)) as talker,
        Proxy(Impairment(loss=0.1), 3, near_end=("127.0.0.1", talker.port)) as network,
    ):
        network.set_far_end(("127.0.0.1", listener.port))
        talker.send_to(network.near)
        time.sleep(3)
        talker.send_to(None)
        time.sleep(0.1)
        assert network.to_far.lost > 5
        assert abs(listener.missing() - network.to_far.lost) <= 1  # the first or last may be one


def test_tones_are_told_apart_from_silence_noise_and_the_wrong_law() -> None:
    tone = audio.tone(CALLER_NOTES[0], 0.1)
    for law in (audio.A_LAW, audio.MU_LAW):
        coded = audio.encode(tone, law)
        assert audio.share(audio.decode(coded, law), CALLER_NOTES[0]) > 0.98
        assert audio.share(audio.decode(coded, 8 - law), CALLER_NOTES[0]) < 0.95
    assert audio.share([0] * 800, CALLER_NOTES[0]) == 0
    assert audio.share(audio.tone(CORE_NOTES[0], 0.1), CALLER_NOTES[0]) < 0.05


def test_a_hole_in_the_melody_is_seen() -> None:
    melody = audio.melody(CALLER_NOTES * 3, 0.5)
    assert audio.in_order(audio.heard(melody, CALLER_NOTES), CALLER_NOTES)
    without_a_note = melody[:4000] + melody[8000:]
    assert not audio.in_order(audio.heard(without_a_note, CALLER_NOTES), CALLER_NOTES)


def test_an_orphan_and_its_port_are_found(tmp_path: Path) -> None:
    """A parent that is killed while its child holds a UDP port: what Ctrl-C must never leave."""
    child = (
        "import socket, time; s = socket.socket(type=2); s.bind(('127.0.0.1', 0)); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = Process("parent", [sys.executable, "-c", parent], tmp_path)
    watch = Watch(process.pid)

    def port_seen() -> bool:
        watch.look()
        return bool(watch.ports)

    try:
        eventually("a child with a port", port_seen, 5)
        process.stop(1, first=signal.SIGKILL)
        left = watch.left()
    finally:
        process.signal_group(signal.SIGKILL)  # the child is of its group
    assert len(left) == 2, left
    assert left[0].startswith("process "), left
    assert left[1].startswith("UDP port "), left
    eventually("all gone in the end", lambda: not watch.left(), 2)


def test_a_recording_whose_header_lies_is_found(tmp_path: Path) -> None:
    whole = audio.write_wav(tmp_path / "whole.wav", audio.tone(440, 0.5))
    assert not broken_recordings(tmp_path)
    (tmp_path / "cut.wav").write_bytes(whole.read_bytes()[:-100])
    (tmp_path / "longer.wav").write_bytes(whole.read_bytes() + b"\0" * 100)
    (tmp_path / "header.wav").write_bytes(whole.read_bytes()[:20])
    (tmp_path / "half.wav.part").write_bytes(b"")
    found = " ".join(broken_recordings(tmp_path))
    for name in ("cut", "longer", "header", "half"):
        assert name in found, found
    assert "whole" not in found
