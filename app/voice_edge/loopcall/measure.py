# SPDX-License-Identifier: GPL-3.0-or-later
"""What a listener with a stop-watch would say about a call: onsets, ends and gaps of speech.

Audible means a level of at least -50 dBFS over 10 ms; see the package's docstring for what the time
of a sample is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .g711 import Pcm
from .rtp_peer import AUDIBLE_RMS, RATE, Arrival, Utterance

_WINDOW = 80  # 10 ms
_HOP = 20  # 2.5 ms


def audible_windows(pcm: Pcm, threshold_rms: float = AUDIBLE_RMS) -> npt.NDArray[np.int64]:
    """First samples of the 10 ms windows (every 2.5 ms) whose level reaches the threshold."""
    if len(pcm) < _WINDOW:
        pcm = np.concatenate([pcm, np.zeros(_WINDOW - len(pcm), dtype=np.int16)])
    sums = np.concatenate([[0.0], np.cumsum(np.square(pcm.astype(np.float64)))])
    starts = np.arange(0, len(pcm) - _WINDOW + 1, _HOP)
    energy = (sums[starts + _WINDOW] - sums[starts]) / _WINDOW
    loud: npt.NDArray[np.int64] = starts[energy >= threshold_rms**2]
    return loud


def speech_bounds(pcm: Pcm) -> tuple[int, int] | None:
    """First and last audible sample of a recording, None if it is silent.

    The threshold is -50 dBFS or 40 dB under the loudest 10 ms, whichever is higher, so that breath
    and room noise at the end of a recorded phrase do not count as speech.
    """
    loudest = max((_level(pcm, start) for start in range(0, len(pcm), _WINDOW)), default=0.0)
    windows = audible_windows(pcm, max(AUDIBLE_RMS, loudest / 100.0))
    if len(windows) == 0:
        return None
    return int(windows[0]), min(int(windows[-1]) + _WINDOW, len(pcm)) - 1


def active_onset(pcm: Pcm) -> int | None:
    """First sample of active speech, None if the recording is silent: the first 10 ms that lie at
    most 15.9 dB under the active level (the margin of ITU-T P.56).

    A phrase may begin with a consonant so faint that a detector of speech must not take it for one.
    """
    whole = pcm[: len(pcm) // _WINDOW * _WINDOW].astype(np.float64)
    power = np.square(whole).reshape(-1, _WINDOW).mean(axis=1) if len(whole) else whole
    if len(power) == 0 or not power.any():
        return None
    threshold = 0.0
    for _ in range(20):  # converges after a few rounds
        threshold = float(power[power >= threshold].mean()) * 10**-1.59
    return int(np.argmax(power >= threshold)) * _WINDOW


def _level(pcm: Pcm, start: int) -> float:
    window = pcm[start : start + _WINDOW].astype(np.float64)
    return float(np.sqrt(np.mean(np.square(window))))


def last_speech_ns(utterance: Utterance) -> int:
    """When the last speech sample of an utterance was on the wire. ValueError if it is silent."""
    bounds = speech_bounds(utterance.pcm)
    if bounds is None:
        raise ValueError("the utterance is silent")
    return utterance.time_of(bounds[1])


def active_onset_ns(utterance: Utterance) -> int:
    """When active speech of an utterance began on the wire. ValueError if it is silent."""
    sample = active_onset(utterance.pcm)
    if sample is None:
        raise ValueError("the utterance is silent")
    return utterance.time_of(sample)


def first_speech_ns(utterance: Utterance) -> int:
    """When the first speech sample of an utterance was on the wire. ValueError if it is silent."""
    bounds = speech_bounds(utterance.pcm)
    if bounds is None:
        raise ValueError("the utterance is silent")
    return utterance.time_of(bounds[0])


@dataclass(frozen=True)
class Heard:
    """What came from the agent: samples in order of RTP time, each with its time in ns."""

    pcm: Pcm
    times: npt.NDArray[np.int64]

    def audible_ns(self) -> npt.NDArray[np.int64]:
        """Times of the starts of all audible 10 ms windows."""
        if len(self.pcm) == 0:
            return np.zeros(0, dtype=np.int64)
        return self.times[audible_windows(self.pcm)]


def heard(arrivals: Iterable[Arrival]) -> Heard:
    """Put received packets in order; a packet's samples are timed from its arrival."""
    ordered = sorted(
        (arrival for arrival in arrivals if len(arrival.pcm)), key=lambda arrival: arrival.at_ns
    )
    if not ordered:
        return Heard(np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int64))
    step = 1_000_000_000 // RATE
    pcm = np.concatenate([arrival.pcm for arrival in ordered])
    times = np.concatenate(
        [arrival.at_ns + step * np.arange(len(arrival.pcm), dtype=np.int64) for arrival in ordered]
    )
    return Heard(pcm, times)


def first_audible_after(sound: Heard, after_ns: int) -> int | None:
    """When the agent is first audible at or after a moment, None if never."""
    times = sound.audible_ns()
    later = times[times >= after_ns]
    return int(later[0]) if len(later) else None


def last_audible_between(sound: Heard, from_ns: int, to_ns: int) -> int | None:
    """End of the last audible window that starts in [from, to); None if there is none."""
    times = sound.audible_ns()
    inside = times[(times >= from_ns) & (times < to_ns)]
    return int(inside[-1]) + _WINDOW * 1_000_000_000 // RATE if len(inside) else None


def silence_after_barge_in(sound: Heard, onset_ns: int, until_ns: int) -> float | None:
    """Seconds from the caller's onset (on the wire) to the agent's last audible sample.

    ``until_ns`` bounds the search: the end of the caller's speech, before which no new reply can
    start. None if the agent was not audible at the onset (nothing was interrupted).
    """
    times = sound.audible_ns()
    before = times[(times >= onset_ns - 300_000_000) & (times < onset_ns)]
    if len(before) == 0:
        return None
    last = last_audible_between(sound, onset_ns, until_ns)
    return 0.0 if last is None else (last - onset_ns) / 1e9


def speech_pieces(pcm: Pcm, pause_s: float = 0.7) -> Sequence[tuple[int, int]]:
    """Cut a recording at pauses: (first, last + 1) of each stretch of audible sound."""
    windows = audible_windows(pcm)
    pieces: list[tuple[int, int]] = []
    for start in windows.tolist():
        if pieces and start - pieces[-1][1] < pause_s * RATE:
            pieces[-1] = (pieces[-1][0], start + _WINDOW)
        else:
            pieces.append((start, start + _WINDOW))
    return pieces
