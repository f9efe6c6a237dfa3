# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest recordings give way, and nothing else does."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from voice_edge.quota import prune

from .fakes import FakeCall
from .test_service import Running
from .virtual import run

NOW = 1_000_000.0


def recordings(folder: Path, *ages_s: float, size: int = 1_000) -> list[str]:
    for index, age in enumerate(ages_s):
        path = folder / f"{index}.wav"
        path.write_bytes(bytes(size - 100))
        os.utime(path, (NOW - age, NOW - age))
        (folder / f"{index}.wav.json").write_bytes(bytes(100))
    return names(folder)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_oldest_go_with_their_accounts(tmp_path: Path) -> None:
    recordings(tmp_path, 300, 500, 400, 200)
    assert prune(tmp_path, 2_000, now=NOW) == 2
    assert names(tmp_path) == ["0.wav", "0.wav.json", "3.wav", "3.wav.json"]


@pytest.mark.parametrize("quota", [4_000, 10_000])
def test_within_the_quota_nothing_goes(tmp_path: Path, quota: int) -> None:
    before = recordings(tmp_path, 300, 500, 400, 200)
    assert prune(tmp_path, quota, now=NOW) == 0
    assert names(tmp_path) == before


def test_calls_that_are_up_and_other_files_stay(tmp_path: Path) -> None:
    recordings(tmp_path, 10, 59, 300)
    (tmp_path / "notes.txt").write_bytes(bytes(9_000))
    assert prune(tmp_path, 0, now=NOW) == 1
    assert names(tmp_path) == ["0.wav", "0.wav.json", "1.wav", "1.wav.json", "notes.txt"]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert prune(tmp_path / "none", 0, now=NOW) == 0


def test_the_service_keeps_it_at_start_and_after_each_call(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    folder.mkdir()

    def old(name: str) -> Path:
        path = folder / name
        path.write_bytes(bytes(2_000_000))
        os.utime(path, (NOW, NOW))
        return path

    first = old("a.wav")

    async def scenario() -> None:
        more = f'[recording]\ndir = "{folder}"\nquota_mb = 1'
        async with Running(more=more) as r:
            await r.until_ready()
            assert not first.exists()
            second = old("b.wav")
            call = r.engine.rings(FakeCall(1))
            await call.hears_end()
            assert second.exists()
            call.leaves()
            await asyncio.gather(*r.service._calls)
            assert not second.exists()

    run(scenario())
    gc.unfreeze()
