# SPDX-License-Identifier: GPL-3.0-or-later
"""The speed gate: what it compares with, what it fails on, and when it says nothing. Times are made up, with a seed."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tools.bench import gate, programs
from tools.bench.gate import Measure, Times, judge
from tools.bench.history import Repository
from tools.bench.slowdown import slowdown
from tools.step import Failed

NAMES = ("voice activity", "decode")


def noisy(factor: float, seed: int, noise: float = 0.08) -> Measure:
    """A program whose runs vary, mostly upwards, as on a machine that others use."""
    draw = random.Random(seed)

    def run() -> Times:
        return {name: 1000 * factor * (1 + abs(draw.gauss(0, noise))) for name in NAMES}

    return run


@pytest.mark.parametrize("seed", range(20))
def test_a_deliberate_slowdown_fails_and_none_does_not(seed: int) -> None:
    base, same, slower = noisy(1.0, seed), noisy(1.0, seed + 100), noisy(1.4, seed + 200)
    assert judge(base, same, 10)[1] == {}
    found, slow = judge(base, slower, 10)
    assert slow.keys() == set(NAMES)
    assert all(one.lower > 1.1 for one in found.values())


def test_a_change_within_the_limit_passes() -> None:
    assert judge(noisy(1.0, 1, 0.01), noisy(1.08, 2, 0.01), 10)[1] == {}


def test_what_is_not_slow_the_second_time_was_the_machine() -> None:
    calls = 0

    def disturbed() -> Times:
        nonlocal calls
        calls += 1
        return {"decode": 2000.0 if calls <= 10 else 1000.0}

    found, slow = judge(lambda: {"decode": 1000.0}, disturbed, 10)
    assert slow == {}
    assert found["decode"].ratio == 1.0


def test_a_figure_that_only_one_side_has_is_left_out() -> None:
    found, _ = judge(lambda: {"old": 1.0, "both": 1.0}, lambda: {"new": 9.0, "both": 1.0}, 4)
    assert found.keys() == {"both"}


def test_single_disturbed_pairs_do_not_move_the_interval() -> None:
    pairs = [(1000.0, 1000.0 + n) for n in range(9)] + [(1000.0, 9000.0)]
    found = slowdown(pairs)
    assert found.ratio < 1.01
    assert found.lower < 1.01
    assert slowdown(pairs) == found


class Checkout:
    """A repository with commits of its own times."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, file: str, hour: int, message: str = "change") -> str:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{file} {hour}")
        self._git("add", file)
        when = f"2026-11-30T{hour:02}:00:00Z"
        who = {f"GIT_{role}_{part}": "x" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}  # fmt: skip
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        self._git("commit", "--quiet", "-m", message, **who, **dates)
        return self._git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        self._git("checkout", "--quiet", "-b", name)

    def _git(self, *arguments: str, **environment: str) -> str:
        return subprocess.run(
            ["git", "-c", "commit.gpgsign=false", *arguments],
            cwd=self.root,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.root), **environment},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.delenv("VC_GATE_BASE", raising=False)
    return Checkout(tmp_path)


CALL, README = "core/engine/src/media/call.rs", "README.md"


def test_a_branch_is_compared_with_where_it_left_main(checkout: Checkout) -> None:
    left = checkout.commit(CALL, 1)
    checkout.branch("work")
    checkout.commit(CALL, 9)
    repository = Repository(checkout.root)
    base = repository.base()
    assert base is not None
    assert base.commit == left
    assert repository.touched(base) == [CALL]


def test_main_itself_is_compared_with_what_it_was_three_hours_before(checkout: Checkout) -> None:
    checkout.commit(README, 1)
    before = checkout.commit(CALL, 2)
    checkout.commit(README, 7)
    checkout.commit(CALL, 9)
    base = Repository(checkout.root).base()
    assert base is not None
    assert base.commit == before


def test_a_change_beside_the_media_path_is_no_change(checkout: Checkout) -> None:
    checkout.commit(CALL, 1)
    checkout.branch("work")
    checkout.commit(README, 2)
    repository = Repository(checkout.root)
    base = repository.base()
    assert base is not None
    assert repository.touched(base) == []
    # What is not committed counts, new files too.
    (checkout.root / "core/engine/src/media/new.rs").write_text("")
    assert repository.touched(base) == ["core/engine/src/media/new.rs"]


def test_a_first_commit_has_no_base(checkout: Checkout) -> None:
    assert Repository(checkout.root).base() is None
    checkout.commit(CALL, 1)
    assert Repository(checkout.root).base() is None


def test_a_slowdown_may_be_on_purpose(checkout: Checkout) -> None:
    checkout.commit(CALL, 1)
    checkout.branch("work")
    checkout.commit(CALL, 2, "Gain\n\nSlower-on-purpose: gain is new\n")
    checkout.commit(CALL, 3)
    repository = Repository(checkout.root)
    base = repository.base()
    assert base is not None
    assert repository.accepted(base) == ["gain is new"]


def test_without_a_base_or_a_change_nothing_is_built(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "ROOT", checkout.root)
    monkeypatch.setattr(programs, "cargo_bench", lambda *_: pytest.fail("it was built"))
    checkout.commit(CALL, 1)
    assert gate.main([]) == 0
    assert "skipped: there is no merge base" in capsys.readouterr().out
    checkout.branch("work")
    checkout.commit(README, 2)
    assert gate.main([]) == 0
    assert "skipped: no Rust of the media path changed" in capsys.readouterr().out


def test_a_base_that_does_not_build_is_told_and_passes(
    checkout: Checkout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def build(name: str, tree: Path = checkout.root) -> Path:
        if tree != checkout.root:
            raise Failed("the benchmark does not compile")
        return tmp_path / name

    monkeypatch.setattr(gate, "ROOT", checkout.root)
    monkeypatch.setattr(gate, "OUT", tmp_path / "out")
    monkeypatch.setattr(programs, "cargo_bench", build)
    checkout.commit("core/engine/benches/gate.rs", 1)
    checkout.branch("work")
    checkout.commit(CALL, 2)
    assert gate.main([]) == 0
    assert "skipped: the benchmark does not build in the tree of" in capsys.readouterr().out


def test_each_tree_is_built_apart_from_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def cargo(_: object, *, env: dict[str, str], **__: object) -> subprocess.CompletedProcess[str]:
        folders.append(env.get("CARGO_TARGET_DIR"))
        return subprocess.CompletedProcess([], 1, stdout="")

    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    monkeypatch.setattr(programs, "cargo_environment", lambda: dict(os.environ))
    monkeypatch.setattr("tools.bench.programs.shutil.which", lambda *_, **__: "cargo")
    monkeypatch.setattr("tools.bench.programs.subprocess.run", cargo)
    for arguments in (("gate",), ("gate", tmp_path)):
        with pytest.raises(Failed):
            programs.cargo_bench(*arguments)
    assert len(set(folders)) == 2


def test_files_of_the_base_are_newer_than_what_was_built_before(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit(CALL, 1)
    checkout.branch("work")
    checkout.commit(CALL, 2)
    repository = Repository(checkout.root)
    base = repository.base()
    assert base is not None
    before = time.time() - 60
    repository.unpack(base, tmp_path / "tree")
    assert (tmp_path / "tree" / CALL).stat().st_mtime > before
