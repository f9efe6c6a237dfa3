# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python path on the frames of a call tells what it tells of a recording."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from core.reference.level import GainSettings
from core.reference.live import Ear
from core.reference.path import LINEAR, Line, walk
from core.reference.pool import Pool
from core.reference.vad_golden import voice
from voicecore import Audio, SpeechEnded, SpeechStarted

BEGIN_NS = 7_000_000_000


@pytest.mark.parametrize("rate", [8000, 16000])
async def test_events_and_audio_are_those_of_the_recorded_call(rate: int) -> None:
    said = np.array(list(islice(voice(rate), 2 * rate)), "<i2")
    quiet = np.zeros(rate, "<i2")
    samples = np.concatenate([quiet, said, quiet, said, quiet])
    gain = GainSettings(enabled=True)
    pool = Pool(threads=2)
    recorded = walk(Line(rate, LINEAR, samples.tobytes(), gain), pool)
    assert len(recorded.events) >= 2, "the sound says something"
    ear, told, step = Ear(pool, rate, gain=gain), [], 3 * rate // 50
    for k in range(0, len(samples), step):
        at_ns = BEGIN_NS + k * 1_000_000_000 // rate
        told += await ear.hear(Audio(at_ns=at_ns, pcm=samples[k : k + step].tobytes()))
    pool.close()
    decisions = [event for event in told if not isinstance(event, Audio)]
    assert len(decisions) == len(recorded.events)
    for event, expected in zip(decisions, recorded.events, strict=True):
        assert isinstance(event, SpeechStarted if expected.started else SpeechEnded)
        assert abs(event.at_ns - BEGIN_NS - expected.sample * 1_000_000_000 // rate) <= 1
    pieces = [event for event in told if isinstance(event, Audio)]
    assert len(pieces) == len(recorded.chunks)
    for piece, chunk in zip(pieces, recorded.chunks, strict=True):
        heard = recorded.audio[chunk.sample : chunk.sample + chunk.length]
        assert bytes(piece.pcm) == heard.astype("<i2").tobytes()
        assert abs(piece.at_ns - BEGIN_NS - chunk.sample * 1_000_000_000 // rate) <= 1
