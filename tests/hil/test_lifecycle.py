# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C and sudden death at many moments: no process, no port, no broken recording is left.

Moments come from a seed; HIL_MOMENTS sets how many (5 unless set).
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hil.drivers.agent import LocalAgent
from hil.drivers.local import LocalCore, python_environment
from hil.peers.datagrams import Datagrams
from hil.peers.dialog import Dialog
from hil.peers.models import Models
from hil.peers.process import Process, eventually
from hil.peers.rtp import RtpEnd
from hil.peers.wreckage import Watch, broken_recordings

MOMENTS = int(os.environ.get("HIL_MOMENTS", "5"))
SEED = 1933


def moments(count: int, longest_s: float) -> list[float]:
    """Spread over the time, one in each of `count` stretches that grow: starting up is short and risky."""
    chance = random.Random(SEED)
    return [
        round(longest_s * ((place + chance.random()) / count) ** 1.5, 3) for place in range(count)
    ]


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with Models() as servers:
        yield servers


def assert_nothing_left(watch: Watch, directory: Path) -> None:
    def left() -> list[str]:
        return watch.left()

    try:
        eventually("nothing left", lambda: not left(), 2)
    except AssertionError:
        pytest.fail("\n".join(left()))
    assert not broken_recordings(directory)


def was_interrupted(process: Process, status: int) -> bool:
    """Ended as Ctrl-C ends a program, also in the first moments, when Python has no handlers yet."""
    said = process.stderr()
    # Not one line of ours: the finder of an editable install is run by Python's own start-up.
    starting = status == 1 and "KeyboardInterrupt" in said and "voice_edge/" not in said
    return status in (130, -signal.SIGINT) or starting


def press_ctrl_c(process: Process, watch: Watch, after_s: float, within_s: float) -> int:
    """SIGINT to the whole group, as a terminal sends it, at the moment; the exit status."""
    end = time.monotonic() + after_s
    while time.monotonic() < end and process.alive:
        watch.look()
        time.sleep(0.02)
    process.signal_group(signal.SIGINT)
    end = time.monotonic() + within_s
    while process.alive and time.monotonic() < end:
        watch.look()
        time.sleep(0.02)
    assert process.alive is False, f"still there {within_s} s after Ctrl-C\n{process.tail()}"
    return process.wait(1)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", moments(MOMENTS, 20.0))
def test_ctrl_c_during_the_demo(tmp_path: Path, after_s: float) -> None:
    out = tmp_path / "out"
    args = [sys.executable, "-m", "voice_edge", "demo", "--out", str(out)]
    process = Process("demo", args, tmp_path, env=python_environment())
    watch = Watch(process.pid)
    try:
        status = press_ctrl_c(process, watch, after_s, 15)
    finally:
        process.stop(0.1, first=signal.SIGKILL)
    assert status == 0 or was_interrupted(process, status), process.tail()
    assert_nothing_left(watch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [12.0])
def test_the_demo_killed_leaves_no_children(tmp_path: Path, after_s: float) -> None:
    args = [sys.executable, "-m", "voice_edge", "demo", "--out", str(tmp_path / "out")]
    process = Process("demo", args, tmp_path, env=python_environment())
    watch = Watch(process.pid)
    end = time.monotonic() + after_s
    while time.monotonic() < end:
        watch.look()
        time.sleep(0.02)
    assert len(watch.processes) > 1, "it had no children yet"
    process.send(signal.SIGKILL)
    process.wait(2)
    try:
        eventually("children and ports gone", lambda: not watch.left(), 15)
    except AssertionError:
        pytest.fail("\n".join(watch.left()))


@pytest.mark.slow
@pytest.mark.parametrize("after_s", moments(MOMENTS, 4.0))
def test_ctrl_c_with_calls_up(
    tmp_path: Path, models: Models, caller_melody: list[int], after_s: float
) -> None:
    """Three calls talk to the agent; each is sent BYE, each recording is whole."""
    agent = LocalAgent(tmp_path, models.url)
    watch = Watch(agent.process.pid)
    ends: list[RtpEnd] = []
    callers: list[Datagrams] = []
    try:
        sip = agent.wait_ready()
        began = time.monotonic()
        for number in range(3):
            if time.monotonic() - began > after_s:
                break
            callers.append(Datagrams(sip))
            ends.append(RtpEnd(play=caller_melody))
            dialog = Dialog(callers[-1], f"c{number}", words="agent", rtp_port=ends[-1].port)
            ends[-1].send_to(dialog.remote_rtp)
        left_s = after_s - (time.monotonic() - began)
        status = press_ctrl_c(agent.process, watch, max(0.0, left_s), 6)
        byes = 0
        for caller in callers:
            while (message := caller.receive(0.05)) is not None:
                byes += message.startswith(b"BYE ")
        assert byes >= len(callers), f"{len(callers)} calls were up, {byes} BYE came"
    finally:
        agent.process.stop(0.1, first=signal.SIGKILL)
        for end in ends:
            end.stop()
        for caller in callers:
            caller.close()
    assert status in (0, 130), agent.process.tail()
    assert_nothing_left(watch, tmp_path)
    assert len(list(agent.recordings.rglob("*.wav"))) == len(callers)


@pytest.mark.parametrize("after_s", moments(4, 0.6))
def test_ctrl_c_while_the_agent_starts(tmp_path: Path, models: Models, after_s: float) -> None:
    agent = LocalAgent(tmp_path, models.url)
    watch = Watch(agent.process.pid)
    try:
        status = press_ctrl_c(agent.process, watch, after_s, 6)
    finally:
        agent.process.stop(0.1, first=signal.SIGKILL)
    assert status == 0 or was_interrupted(agent.process, status), agent.process.tail()
    assert_nothing_left(watch, tmp_path)


def test_the_core_killed_with_a_call_up_leaves_a_recording_that_opens(
    tmp_path: Path, rtp: RtpEnd
) -> None:
    """SIGKILL: nothing can be tidied up, but no WAV under its final name may lie about its length."""
    core = LocalCore(tmp_path, record=tmp_path / "wav")
    with Datagrams(core.sip) as caller:
        dialog = Dialog(caller, "killed", rtp_port=rtp.port)
        rtp.send_to(dialog.remote_rtp)
        time.sleep(1.5)
        core.process.stop(2, first=signal.SIGKILL)
    faults = broken_recordings(tmp_path / "wav")
    assert not [fault for fault in faults if ".part" not in fault]
    assert list((tmp_path / "wav").iterdir()), "nothing was being recorded"


def test_a_second_core_on_the_same_port_says_so(
    tmp_path: Path, start_core: Callable[..., LocalCore]
) -> None:
    core = start_core()
    args = [sys.executable, "-m", "hil.drivers.core_process", "--sip-port", str(core.sip[1])]
    second = Process("second", args, tmp_path, env=python_environment())
    assert second.wait(10) != 0
    assert str(core.sip[1]) in second.stderr(), "the error does not name the port"
    with Datagrams(core.sip) as caller:
        assert caller.alive() == 200
