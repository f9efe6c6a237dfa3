# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of reproducibility names what differs, and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from image.repro import first_difference, tree_difference


@pytest.mark.parametrize(
    ("one", "two", "at"),
    [
        (b"abc", b"abd", 2),
        (b"abc", b"abcd", 3),
        (b"", b"x", 0),
        (bytes(1 << 20) + b"a", bytes(1 << 20) + b"b", 1 << 20),
        (b"same", b"same", 4),
    ],
)
def test_first_differing_byte(tmp_path: Path, one: bytes, two: bytes, at: int) -> None:
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "two").write_bytes(two)
    assert first_difference(tmp_path / "one", tmp_path / "two") == at


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal trees."""
    for name in ("one", "two"):
        folder = tmp_path / name / "etc"
        folder.mkdir(parents=True)
        (folder / "file").write_text("text")
        (folder / "link").symlink_to("file")
        for path in (folder / "file", folder, tmp_path / name):
            os.utime(path, (1, 1))
        os.utime(folder / "link", (1, 1), follow_symlinks=False)
    return tmp_path / "one", tmp_path / "two"


def test_equal_trees_do_not_differ(trees: tuple[Path, Path]) -> None:
    assert tree_difference(*trees) is None


def test_content(trees: tuple[Path, Path]) -> None:
    (trees[1] / "etc/file").write_text("texT")
    os.utime(trees[1] / "etc/file", (1, 1))
    assert tree_difference(*trees) == "etc/file: content, first at byte 3"


def test_mode(trees: tuple[Path, Path]) -> None:
    (trees[1] / "etc/file").chmod(0o600)
    assert (tree_difference(*trees) or "").startswith("etc/file: st_mode")


def test_time(trees: tuple[Path, Path]) -> None:
    os.utime(trees[1] / "etc/file", (2, 2))
    assert (tree_difference(*trees) or "").startswith("etc/file: st_mtime_ns")


def test_target_of_a_link(trees: tuple[Path, Path]) -> None:
    (trees[1] / "etc/link").unlink()
    (trees[1] / "etc/link").symlink_to("other")
    os.utime(trees[1] / "etc/link", (1, 1), follow_symlinks=False)
    os.utime(trees[1] / "etc", (1, 1))
    assert tree_difference(*trees) == "etc/link: target"


def test_file_of_one_only(trees: tuple[Path, Path]) -> None:
    (trees[0] / "extra").write_text("")
    os.utime(trees[0], (1, 1))
    assert tree_difference(*trees) == "extra: only in one of them"
