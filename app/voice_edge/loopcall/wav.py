# SPDX-License-Identifier: GPL-3.0-or-later
"""WAV files in and out of a call; a file is complete or not there at all."""

from __future__ import annotations

import os
import wave
from pathlib import Path

import numpy as np

from .g711 import Pcm
from .rtp_peer import RATE, Arrival, Departure

_REANCHOR = RATE // 10  # samples: a stream whose clock is off by more is placed anew


def read(path: Path) -> list[Pcm]:
    """Channels of an 8 kHz 16-bit WAV file. Raises ValueError on another format."""
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2 or file.getframerate() != RATE:
            raise ValueError(f"{path}: not 16-bit PCM at {RATE} Hz")
        channels = file.getnchannels()
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    return [samples[channel::channels].astype(np.int16) for channel in range(channels)]


def write(path: Path, channels: list[Pcm]) -> None:
    """Write channels (the shorter ones padded with silence) at 8 kHz, in one step."""
    length = max((len(channel) for channel in channels), default=0)
    frames = np.zeros((length, len(channels)), dtype="<i2")
    for index, channel in enumerate(channels):
        frames[: len(channel), index] = channel
    half = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with wave.open(str(half), "wb") as file:
            file.setnchannels(len(channels))
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(frames.tobytes())
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def both_directions(departures: list[Departure], arrivals: list[Arrival]) -> list[Pcm]:
    """The call as the caller's side knows it: left what was sent, right what came.

    Sent frames lie at their time of departure. Received ones lie by their RTP timestamps (jitter
    leaves no gaps), anchored at an arrival and anchored anew when both drift over 100 ms apart.
    """
    starts = [departures[0].at_ns] if departures else []
    starts += [arrivals[0].at_ns] if arrivals else []
    if not starts:
        return [np.zeros(0, dtype=np.int16)] * 2
    origin = min(starts)
    sent = [
        (index * 160 + _samples(departures[0].at_ns - origin), frame.pcm)
        for index, frame in enumerate(departures)
    ]
    came: list[tuple[int, Pcm]] = []
    anchor = 0
    ssrc: int | None = None
    for arrival in arrivals:
        if not len(arrival.pcm):
            continue
        place = _samples(arrival.at_ns - origin)
        if arrival.packet.ssrc != ssrc:
            ssrc, anchor = arrival.packet.ssrc, arrival.packet.timestamp - place
        offset = (arrival.packet.timestamp - anchor - place + 2**31) % 2**32 - 2**31
        if abs(offset) > _REANCHOR:
            anchor, offset = arrival.packet.timestamp - place, 0
        came.append((place + offset, arrival.pcm))
    return [_laid_out(sent), _laid_out(came)]


def _samples(ns: int) -> int:
    return round(ns * RATE / 1e9)


def _laid_out(pieces: list[tuple[int, Pcm]]) -> Pcm:
    length = max((place + len(pcm) for place, pcm in pieces), default=0)
    out = np.zeros(length, dtype=np.int16)
    for place, pcm in pieces:
        begin = max(place, 0)
        out[begin : place + len(pcm)] = pcm[begin - place :]
    return out
