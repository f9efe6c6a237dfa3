# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks whether the plain Python path (core/reference of a checkout) can be imported."""

from __future__ import annotations

from importlib.util import find_spec

_PACKAGES = ("numpy", "onnxruntime", "core.reference.live")


def missing_reference() -> str | None:
    """The first package that the Python path lacks."""
    for name in _PACKAGES:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:  # of the package around it
            found = None
        if found is None:
            return name
    return None
