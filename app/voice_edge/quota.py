# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings within their quota: the oldest give way, each with its account."""

from __future__ import annotations

import logging
import time
from pathlib import Path

_log = logging.getLogger(__name__)

# A recording that grew so lately belongs to a call that is up, or to one that was up just now.
_FRESH_S = 60.0


def prune(folder: Path, quota: int, *, now: float | None = None) -> int:
    """Delete the oldest recordings of ``folder`` until at most ``quota`` bytes are left.

    Returns how many were deleted. ``now`` is the wall clock, as files' times are. Other files are
    neither counted nor touched, and what cannot be deleted is passed over.
    """
    now = time.time() if now is None else now
    found = []
    for path in folder.glob("*.wav"):
        account = path.with_name(path.name + ".json")
        try:
            stat = path.stat()
            size = stat.st_size + (account.stat().st_size if account.exists() else 0)
        except OSError:
            continue
        found.append((stat.st_mtime, path, account, size))
    total = sum(size for *_, size in found)
    deleted = 0
    for changed, path, account, size in sorted(found):
        if total <= quota:
            break
        if now - changed < _FRESH_S:
            continue
        try:
            path.unlink(missing_ok=True)
            account.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("a recording cannot be deleted: %s; look at recording.dir", error.strerror)
            continue
        total -= size
        deleted += 1
    if deleted:
        _log.info("%d recordings deleted to keep recording.quota_mb", deleted)
    return deleted
