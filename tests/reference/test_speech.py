# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain Python decisions: the cases of core/engine/src/signal/speech.rs, and how frames become windows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.reference.speech import FRAME, WINDOW, Caller, Decider, Settings

LOW, SOFT, HIGH, SURE = 0.1, 0.4, 0.55, 0.9


def decisions(
    probabilities: list[float], settings: Settings | None = None
) -> list[tuple[int, bool, int]]:
    """Window, start or end, and the window from whose first sample on it holds."""
    decider = Decider(8000, settings or Settings())
    found = []
    for k, p in enumerate(probabilities):
        sample = decider.window(k * WINDOW[8000], np.float32(p))
        if sample is not None:
            found.append((k, decider.talking, sample // WINDOW[8000]))
    return found


def test_speech_starts_at_its_first_window_and_ends_where_the_pause_began() -> None:
    said = [LOW] * 10 + [HIGH] * 20 + [LOW] * 40
    assert decisions(said) == [(11, True, 10), (48, False, 30)]


def test_a_click_and_its_echo_are_no_speech() -> None:
    assert decisions([LOW, HIGH, 0.3, 0.59, LOW, HIGH, LOW]) == []
    assert decisions([LOW, HIGH, SOFT, SOFT, SOFT, LOW]) == []


def test_a_soft_onset_may_waver_but_not_for_ever() -> None:
    assert decisions([LOW, HIGH, SOFT, 0.59]) == [(3, True, 1)]
    assert decisions([HIGH, *[SOFT] * 10, HIGH, HIGH]) == [(12, True, 11)]


def test_a_sure_window_is_enough_unless_longer_speech_is_asked_for() -> None:
    assert decisions([LOW, SURE]) == [(1, True, 1)]
    assert decisions([LOW, *[SURE] * 6], Settings(start_ms=200)) == []
    assert decisions([LOW, SURE], Settings(start_ms=0)) == [(1, True, 1)]


def test_between_release_and_threshold_a_pause_neither_begins_nor_is_forgotten() -> None:
    assert decisions([HIGH] * 5 + [SOFT] * 100) == [(1, True, 0)]
    assert decisions([HIGH] * 5 + [0.2] + [SOFT] * 18)[-1] == (23, False, 5)
    assert decisions([HIGH] * 5 + [LOW] * 18 + [HIGH] + [LOW] * 19)[1:] == [(42, False, 24)]


def test_windows_are_contiguous_and_audio_is_handed_over_once_with_preroll() -> None:
    caller = Caller(8000)
    sound = np.arange(150 * FRAME[8000], dtype=np.int16)
    windows: list[NDArray[np.float32]] = []
    events, chunks = [], []
    for frame in sound.reshape(-1, FRAME[8000]):
        window, event = caller.hear(frame), None
        if window is not None:
            start = len(windows) * WINDOW[8000]
            windows.append(window)
            event = caller.judge(np.float32(HIGH if 4000 <= start < 9000 else 0.05))
        if event:
            events.append(event)
        chunk = caller.deliver(event)
        if chunk:
            chunks.append(chunk)
    heard = (np.concatenate(windows) * 32768).astype(np.int16)
    np.testing.assert_array_equal(heard, sound[: len(heard)])
    assert len(sound) - len(heard) < WINDOW[8000]
    assert [(event.started, event.sample) for event in events] == [(True, 4096), (False, 9216)]
    assert chunks[0].sample == 4096 - 2400
    for before, after in pairwise(chunks):
        assert after.sample == before.sample + before.length
    assert chunks[-1].frame == events[-1].frame
    assert chunks[-1].sample + chunks[-1].length == (events[-1].frame + 1) * FRAME[8000]
