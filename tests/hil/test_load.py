# SPDX-License-Identifier: GPL-3.0-or-later
"""100 calls for a minute, nothing lost. Runs with `-m load`; `python -m hil.load` is the same by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil import load


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["echo", "stream"])
def test_ten_calls_for_a_moment(tmp_path: Path, mode: str) -> None:
    """The same as below, small enough for every run of the tests."""
    result = load.run(tmp_path, calls=10, seconds=3, mode=mode)
    print(load.table(result))
    assert not result.problems()


@pytest.mark.load
@pytest.mark.parametrize("mode", ["echo", "stream"])
def test_a_hundred_calls_for_a_minute(tmp_path: Path, mode: str) -> None:
    result = load.run(tmp_path, calls=100, seconds=60, mode=mode)
    print(load.table(result))
    assert not result.problems()
