# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: an appliance for each file of tests, an RTP end for each test, programs that have to be there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.phone import Phone
from hil.peers.rtp import RtpEnd

# Multiples of 10 Hz: whole periods in the 100 ms in which they are looked for.
CALLER_NOTES = (440.0, 620.0, 910.0)
CORE_NOTES = (500.0, 700.0, 1200.0)
# What the scenarios use as the caller's and the callee's number; no log may show either.
NUMBERS = ("491701234567", "33612345678")

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in (
        ("hil", "against real peers, in real time"),
        ("slow", "takes more than 10 s"),
        ("load", "100 calls for a minute; runs only when asked for with -m load"),
    ):
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in ours:
        item.add_marker(pytest.mark.hil)
    if "load" in (config.option.markexpr or ""):
        return
    heavy = [item for item in ours if item.get_closest_marker("load")]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Without its peers this suite would prove nothing, so their absence is a failure and no skip."""
    missing = [
        package
        for program, package in (("sipp", "sip-tester"), ("baresip", "baresip-core"))
        if shutil.which(program) is None
    ]
    if missing:
        pytest.fail(
            f"not installed: as root, apt-get install -y {' '.join(missing)}", pytrace=False
        )


@pytest.fixture(scope="session")
def caller_melody() -> list[int]:
    """1.5 s of the caller's notes at 8 kHz."""
    return list(audio.melody(CALLER_NOTES, 0.5))


@pytest.fixture
def rtp(caller_melody: list[int]) -> Iterator[RtpEnd]:
    """The caller's end of the media: A-law, silent until told where to send."""
    with RtpEnd(play=caller_melody) as end:
        yield end


@pytest.fixture(scope="module")
def start_core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalCore]]:
    """Starts cores that are stopped, and asked what they think of it, when the file of tests is done."""
    started: list[LocalCore] = []

    def start(**options: object) -> LocalCore:
        directory = tmp_path_factory.mktemp("core")
        core = LocalCore(directory, notes=CORE_NOTES, record=directory / "wav", **options)  # type: ignore[arg-type]
        started.append(core)
        return core

    yield start
    problems = []
    for core in started:
        alive = core.alive()
        status = core.stop()
        if not alive or status != 0:
            problems.append(f"core ended with {status}\n{core.process.tail()}")
        problems += [f"reported: {event}" for event in core.events("error")]
        problems += [f"a number in the log: {line}" for line in numbers_in(core.log())]
        if "panicked" in core.log():
            problems.append(f"panic\n{core.process.tail(60)}")
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    """One core for the whole file: that it serves the last test is part of each of them."""
    return start_core()


@pytest.fixture
def phone(core: LocalCore, caller_melody: list[int]) -> Iterator[Phone]:
    """A telephone in plain Python that plays the caller's notes."""
    with Phone(core.sip, play=caller_melody) as telephone:
        yield telephone


def numbers_in(log: str) -> list[str]:
    """Lines with a telephone number that only the peers know."""
    return [line for line in log.splitlines() if re.search("|".join(NUMBERS), line)]
