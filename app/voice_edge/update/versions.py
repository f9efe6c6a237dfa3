# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of two releases is newer (Semantic Versioning 2.0.0, section 11), as RAUC compares them too."""

from __future__ import annotations

import re

_FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")

Key = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def key(version: str) -> Key:
    """Sorts as the standard says. Raises ValueError."""
    found = _FORM.fullmatch(version)
    if found is None:
        raise ValueError(f"{version[:40]!r} is not a version such as 1.4.0")
    major, minor, patch, before = found.groups()
    parts = before.split(".") if before else []
    marks = tuple((not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts)
    return int(major), int(minor), int(patch), before is None, marks
