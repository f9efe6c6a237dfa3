# SPDX-License-Identifier: GPL-3.0-or-later
"""A real call with recorded speech into the box, answered by voices from model servers outside it."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import numpy as np
import pytest

from hil.peers.process import eventually
from hil.qemu import answers
from hil.qemu.guest import Guest
from voice_edge.demo import recogniser, speech
from voice_edge.demo.dialogue import LINES
from voice_edge.demo.wer import word_errors
from voice_edge.loopcall import measure, wav
from voice_edge.loopcall.caller import Caller
from voice_edge.loopcall.g711 import Pcm
from voice_edge.loopcall.rtp_peer import RATE

if TYPE_CHECKING:
    from hil.qemu.box import TelephoneBox

LINE = LINES[0]
NOISE_DBFS = -65.0  # no line is digitally silent
QUIET_S = 1.5
RECORDINGS = "/data/recordings"
WORDS_WRONG = 0.5
"""Of what is heard: emulated cores lose frames, and the words must still be those."""


@dataclass(frozen=True)
class Call:
    """What both sides know of the one call that these tests look at."""

    greeting: Pcm
    reply: Pcm
    packets: int
    lost: int
    timeline: dict[str, Any]
    recording: str


@pytest.fixture(scope="module")
def url(models: tuple[str, str]) -> str:
    return models[1]


@pytest.fixture(scope="module")
def call(appliance: Any, telephone: TelephoneBox, kept: Path) -> Call:
    """Greeting, one line, its answer, hang-up."""
    appliance.transition("answering")
    guest = appliance.guest
    before = set(_recordings(guest))
    caller, said_ns = asyncio.run(_hold(telephone))
    arrivals = list(caller.rtp.arrivals)
    wav.write(kept / "call-as-heard.wav", wav.both_directions(caller.rtp.departures, arrivals))
    new: list[str] = []

    def written() -> bool:
        new[:] = [name for name in _recordings(guest) if name not in before]
        return bool(new)

    what = "the account of the call beside its recording"
    eventually(what, written, 20 * telephone.patience, 1.0)
    timeline = guest.run(f"cat {shlex.quote(new[0])}")
    (kept / "call.json").write_text(timeline, encoding="utf-8")
    return Call(
        greeting=measure.heard(a for a in arrivals if a.at_ns < said_ns).pcm,
        reply=measure.heard(a for a in arrivals if a.at_ns >= said_ns).pcm,
        packets=caller.rtp.stats.packets,
        lost=caller.rtp.stats.lost,
        timeline=json.loads(timeline),
        recording=new[0].removesuffix(".json"),
    )


async def _hold(telephone: TelephoneBox) -> tuple[Caller, int]:
    """The caller after the call, and when its last speech was on the wire."""
    voice = speech.load([LINE.sound])[LINE.sound]
    bind = "127.0.0.1" if telephone.address.startswith("127.") else telephone.tester
    wait_s = 20 * telephone.patience
    peer = (telephone.address, telephone.sip_port)
    async with Caller(peer, bind=bind, advertise=telephone.tester, noise_dbfs=NOISE_DBFS) as caller:
        await caller.dial(f"sip:agent@{peer[0]}:{peer[1]}", timeout_s=wait_s)
        assert await caller.hear_speech(caller.answered_ns, wait_s), "nobody greeted"
        assert await caller.hear_silence(QUIET_S, wait_s), "the greeting has no end"
        said_ns = measure.last_speech_ns(await caller.say(voice))
        assert await caller.hear_speech(said_ns, wait_s), f'no answer to "{LINE.text}"'
        assert await caller.hear_silence(QUIET_S, wait_s), "the answer has no end"
        await caller.hang_up(timeout_s=wait_s)
        assert caller.ended is not None, "BYE was not answered"
        assert caller.ended.status == 200, caller.ended
    return caller, said_ns


def _recordings(guest: Guest) -> list[str]:
    return guest.say(f"find {RECORDINGS} -name '*.wav.json'").split()


async def test_caller_hears_the_greeting(call: Call, url: str) -> None:
    await _assert_says(call.greeting, answers.GREETING, url)


async def test_caller_hears_the_answer(call: Call, url: str) -> None:
    await _assert_says(call.reply, LINE.reply, url)


def test_agent_understood_and_answered(call: Call) -> None:
    turns = [t for t in call.timeline["turns"] if t["text"] and t.get("kind") != "filler"]
    kinds = [turn.get("kind", turn["role"]) for turn in turns]
    assert kinds == ["greeting", "caller", "reply"], turns
    heard = word_errors(LINE.text, turns[1]["text"])
    assert heard.rate <= WORDS_WRONG, (turns[1]["text"], call.timeline["call"]["stats"])
    assert turns[2]["text"] == LINE.reply
    assert turns[2]["samples"] > RATE, "less than a second of it was heard"
    assert call.timeline["call"]["by_remote"] is True


def test_media_flowed(call: Call) -> None:
    stats = call.timeline["call"]["stats"]
    assert call.packets > 50
    assert call.lost <= call.packets * 0.02, f"{call.lost} of {call.packets} lost"
    assert stats["rx_packets"] > 50
    assert stats["rx_malformed"] == 0
    assert stats["tx_errors"] == 0


def test_recording_holds_both_voices(call: Call, guest: Guest, kept: Path) -> None:
    place = kept / "call-as-recorded.wav"
    packed = guest.run(f"base64 --wrap=0 {shlex.quote(call.recording)}", 60)
    place.write_bytes(base64.b64decode(packed))
    for side in wav.read(place):
        assert _audible_s(side) > 0.7
        assert np.max(np.abs(side)) > 1000


def _audible_s(pcm: Pcm) -> float:
    return len(measure.audible_windows(pcm)) * 0.0025  # one begins every 2.5 ms


async def _assert_says(pcm: Pcm, words: str, url: str) -> None:
    assert _audible_s(pcm) > 0.7
    async with aiohttp.ClientSession() as session:
        heard = await recogniser.transcribe(session, url, "whisper-tiny.en", pcm)
    assert word_errors(words, heard).rate <= WORDS_WRONG, f"heard {heard!r}, not {words!r}"
