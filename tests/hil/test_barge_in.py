# SPDX-License-Identifier: GPL-3.0-or-later
"""A caller who interrupts hears the agent stop within 200 ms, measured on the caller's wire.

The caller is a recorded human voice, the agent's voice a steady tone, so that every gap is the agent's
doing. HIL_BARGE_INS sets how many interruptions (24 unless set).
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hil.drivers.agent import LocalAgent
from hil.peers.models import Models
from voice_edge.demo import speech
from voice_edge.loopcall import measure
from voice_edge.loopcall.caller import Caller
from voice_edge.loopcall.g711 import Pcm
from voice_edge.loopcall.rtp_peer import Utterance

BARGE_INS = int(os.environ.get("HIL_BARGE_INS", "24"))
CALLS = 4
LIMIT_S = 0.2
PHRASES = (
    "tt-somethingwrong",
    "tt-weasels",
    "tt-monkeysintro",
    "all-circuits-busy-now",
    "queue-thankyou",
)


async def interrupt(
    sip: tuple[str, int], voices: list[Pcm], times: int, first: int
) -> list[float | None]:
    """One call: let the agent talk for a second, talk over it, wait for its next reply, and again."""
    said: list[Utterance] = []
    async with Caller(sip, seed=first) as caller:
        await caller.dial(f"sip:agent@{sip[0]}:{sip[1]}")
        since = caller.answered_ns
        for number in range(times):
            assert await caller.hear_speech(since, 10), f"no reply before interruption {number}"
            # the delay puts the onsets at different places within the 20 ms tick
            await asyncio.sleep(1.0 + 0.013 * number)
            said.append(await caller.say(voices[(first + number) % len(voices)]))
            since = measure.last_speech_ns(said[-1])
        await caller.hang_up()
        sound = measure.heard(caller.rtp.arrivals)
    return [
        measure.silence_after_barge_in(
            sound, measure.first_speech_ns(utterance), measure.last_speech_ns(utterance)
        )
        for utterance in said
    ]


async def all_calls(sip: tuple[str, int], voices: list[Pcm]) -> list[float | None]:
    runs = [interrupt(sip, voices, BARGE_INS // CALLS, number) for number in range(CALLS)]
    return [silence for run in await asyncio.gather(*runs) for silence in run]


@pytest.mark.slow
def test_the_agent_stops_within_200_ms(tmp_path: Path) -> None:
    found = speech.load(PHRASES)
    voices = [found[name] for name in PHRASES]
    with Models(spoken_s=30) as models:
        agent = LocalAgent(tmp_path, models.url)
        try:
            silences = asyncio.run(all_calls(agent.wait_ready(), voices))
        finally:
            agent.process.stop(5)
    assert None not in silences, f"the agent was silent at an onset: {silences}"
    ordered = sorted(silence for silence in silences if silence is not None)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
    print(
        f"{len(ordered)} interruptions, onset to the agent's last audible sample:"
        f" p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, worst {ordered[-1] * 1000:.0f} ms"
    )
    assert ordered[0] > 0.02, "stopped before it can have heard anything: the measuring is wrong"
    assert ordered[-1] <= LIMIT_S, [round(silence, 3) for silence in ordered]
