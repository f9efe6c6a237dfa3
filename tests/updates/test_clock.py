# SPDX-License-Identifier: GPL-3.0-or-later
"""A release is judged by the time of its signature, not by the box's clock (row B59 of the field failures)."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from image.toolroot import ToolRoot
from voice_edge.update.refusals import explain

from .box import Box, Factory
from .conftest import Keys

YEAR_S = 31_557_600


@pytest.fixture(scope="session")
def shim(tools: ToolRoot) -> str:
    """The library that shifts a process's clock, as programs in the tool tree see it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = Path(__file__).with_name("clock.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", f"{tools.work}/clock.so", str(source)]
    subprocess.run(command, check=True)
    return "/work/clock.so"


def shifted(box: Box, shim: str, seconds: float) -> Box:
    box.env = {"LD_PRELOAD": shim, "CLOCK_SHIFT_S": str(int(seconds))}
    return box


@pytest.fixture(scope="session")
def release(factory: Factory, keys: Keys) -> Path:
    """Signed today by a signer whose certificate ends in a year."""
    ends = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + YEAR_S))
    begins = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() - YEAR_S))
    signer = keys.ours.signer("a-year", begins=begins, ends=ends)
    return factory.bundle("a-year", signer)


def test_the_shim_shifts(box: Box, shim: str) -> None:
    said = shifted(box, shim, 10 * YEAR_S).run("date +%s")
    assert int(said.text) > time.time() + 9 * YEAR_S


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("clock", ["1970", "in twenty years"])
def test_a_wrong_clock_does_not_keep_a_release_out(
    box: Box, shim: str, release: Path, clock: str
) -> None:
    shift = 3_600 - time.time() if clock == "1970" else 20 * YEAR_S
    said = shifted(box, shim, shift).install(release)
    assert said.code == 0, said.text


@pytest.mark.usefixtures("loops")
def test_nor_does_it_let_one_in_that_was_signed_too_late(
    box: Box, shim: str, factory: Factory, keys: Keys
) -> None:
    late = factory.bundle("late", keys.expired)
    # The box believes it is 2020, when that certificate was good.
    said = shifted(box, shim, 1_590_000_000 - time.time()).install(late)
    assert explain(said.text).code == "ota.expired", said.text
