# SPDX-License-Identifier: GPL-3.0-or-later
"""tools.fetch: what is not the pinned file is never handed out, and errors say what to do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tools import fetch

CONTENT = b"the pinned content\n"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock with one entry that only a file:// address and a folder can supply."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VOICE_EDGE_SOURCES", raising=False)
    path = tmp_path / "lock.toml"
    path.write_text(
        f"""
[[file]]
name = "thing"
version = "1"
file = "thing.bin"
size = {len(CONTENT)}
sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"
licence = "MIT"

[[file.from]]
way = "url"
urls = ["file://{tmp_path}/upstream"]
"""
    )
    return path


def test_right_file_is_kept_and_found_again(lock: Path) -> None:
    upstream = lock.parent / "upstream"
    upstream.write_bytes(CONTENT)
    first = fetch.fetch("thing", lock=lock)
    assert first.read_bytes() == CONTENT
    upstream.unlink()
    assert fetch.fetch("thing", lock=lock) == first


@pytest.mark.parametrize("wrong", [b"the pinned content!", b"short", CONTENT + b"more"])
def test_wrong_file_is_refused(lock: Path, wrong: bytes) -> None:
    (lock.parent / "upstream").write_bytes(wrong)
    with pytest.raises(fetch.FetchError) as caught:
        fetch.fetch("thing", lock=lock)
    text = str(caught.value)
    assert hashlib.sha256(CONTENT).hexdigest() in text
    assert "VOICE_EDGE_SOURCES" in text
    assert "upstream" in text


def test_damaged_cache_is_fetched_anew(lock: Path) -> None:
    (lock.parent / "upstream").write_bytes(CONTENT)
    path = fetch.fetch("thing", lock=lock)
    path.write_bytes(b"x" * len(CONTENT))
    assert fetch.fetch("thing", lock=lock).read_bytes() == CONTENT


def test_file_supplied_by_hand_needs_no_name(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lock.parent / "by-hand"
    folder.mkdir()
    monkeypatch.setenv("VOICE_EDGE_SOURCES", str(folder))
    (folder / "decoy").write_bytes(b"y" * len(CONTENT))
    with pytest.raises(fetch.FetchError, match="decoy has another sha256"):
        fetch.fetch("thing", lock=lock)
    (folder / "any name").write_bytes(CONTENT)
    assert fetch.fetch("thing", lock=lock).read_bytes() == CONTENT


def test_unknown_name_lists_what_there_is(lock: Path) -> None:
    with pytest.raises(fetch.FetchError, match="thing"):
        fetch.fetch("other", lock=lock)


def test_the_real_lock_is_well_formed() -> None:
    entries = fetch.load()
    assert {"pjproject", "libsrtp2", "silero_vad"} <= entries.keys()
    for entry in entries.values():
        assert len(entry.sha256) == 64
        assert entry.ways, entry.name
