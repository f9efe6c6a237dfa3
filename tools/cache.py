# SPDX-License-Identifier: GPL-3.0-or-later
"""The user-level cache: where it is, locks against parallel runs, progress lines, checksums."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/voice-edge`` (``~/.cache/voice-edge``), made if it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # The specification says to ignore a relative path.
    path = Path(base) if base.startswith("/") else Path.home() / ".cache"
    path = path / "voice-edge"
    path.mkdir(parents=True, exist_ok=True)
    return path


def say(text: str) -> None:
    """Print one progress line on stderr; stdout stays for results."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (made if missing), saying so when it has to wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            started = time.monotonic()
            say(f"{what}: another process is at it, waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
            say(f"{what}: waited {time.monotonic() - started:.0f} s")
        yield


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
