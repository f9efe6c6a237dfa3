# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain Python path over recorded calls: code words in, every decision of every frame out.

What the core does in the tick, frame by frame and in its order: decode, windows, voice activity, decisions, delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from core.reference import g711
from core.reference.level import NO_GAIN, Gain, GainSettings
from core.reference.mixer import Mixer, MixerSettings, comfort_noise
from core.reference.pool import Pool, State
from core.reference.speech import DEFAULTS, FRAME, Caller, Chunk, Event, Settings

LINEAR = "L16"
_comfort_noise = cache(comfort_noise)


@dataclass(frozen=True)
class Agent:
    """What the agent's side of a call is given: its voice, which frames have any of it, and the background.

    `background` is a loop at the line's rate, empty for the core's own comfort noise, None for silence; it is stopped
    before frame `stopped`.
    """

    voice: NDArray[np.int16]
    talking: NDArray[np.bool_]
    settings: MixerSettings
    background: NDArray[np.int16] | None
    stopped: int


@dataclass(frozen=True)
class Line:
    """A call as it comes over the line: its rate, its codec (PCMA, PCMU, L16) and the payload without headers."""

    rate: int
    codec: str
    payload: bytes
    gain: GainSettings = NO_GAIN
    agent: Agent | None = None

    def frames(self) -> list[NDArray[np.int16]]:
        """The whole frames, decoded one by one."""
        length = FRAME[self.rate] * (2 if self.codec == LINEAR else 1)
        return [
            self._decode(self.payload[k : k + length])
            for k in range(0, len(self.payload) - length + 1, length)
        ]

    def _decode(self, payload: bytes) -> NDArray[np.int16]:
        if self.codec == LINEAR:
            return np.frombuffer(payload, "<i2")
        return g711.decode(np.frombuffer(payload, np.uint8), self.codec)


@dataclass
class Outcome:
    """What a path made of a call."""

    audio: NDArray[np.int16]
    """What voice activity and recognition hear: all frames, after gain."""
    probabilities: NDArray[np.float32]
    """Of speech, by window."""
    events: list[Event] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    sent: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    """Agent voice over background."""
    overs: int = 0
    """Samples sent that had to be clamped."""


def walk(line: Line, pool: Pool, settings: Settings = DEFAULTS) -> Outcome:
    """The call through the path, one frame after the other."""
    caller, state, gain = Caller(line.rate, settings), State(line.rate), Gain(line.gain)
    audio: list[NDArray[np.int16]] = []
    outcome = Outcome(np.zeros(0, np.int16), np.zeros(0, np.float32))
    probabilities: list[np.float32] = []
    for frame in line.frames():
        audio.append(gain.run(frame))
        window, event = caller.hear(audio[-1]), None
        if window is not None:
            probabilities.append(pool.probability(state, window))
            event = caller.judge(probabilities[-1])
        if event is not None:
            outcome.events.append(event)
        chunk = caller.deliver(event)
        if chunk is not None:
            outcome.chunks.append(chunk)
    outcome.audio = np.concatenate([outcome.audio, *audio])
    outcome.probabilities = np.array(probabilities, np.float32)
    if line.agent is not None:
        outcome.sent, outcome.overs = send(line.rate, line.agent)
    return outcome


def send(rate: int, agent: Agent) -> tuple[NDArray[np.int16], int]:
    """The agent's side, frame by frame: what is sent, and the samples of it that were clamped."""
    background = agent.background
    if background is not None and not len(background):
        background = _comfort_noise(rate)
    mixer = Mixer(agent.settings, background)
    sent = []
    for k, talking in enumerate(agent.talking):
        if k == agent.stopped:
            mixer.stop()
        sent.append(mixer.mix(agent.voice[k * FRAME[rate] : (k + 1) * FRAME[rate]], bool(talking)))
    return np.concatenate(sent), mixer.overs
