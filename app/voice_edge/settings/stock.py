# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the onnxruntime that runs the stock model of voice activity."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .model import Vad


def stock_library(vad: Vad) -> Path | None:
    """The libonnxruntime to use: the one that is named, else that of the Python package; None for the kernel."""
    if vad.backend != "onnxruntime":
        return None
    if vad.onnxruntime is not None:
        return vad.onnxruntime
    package = find_spec("onnxruntime")  # finds, does not load
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "capi"
    return next(iter(sorted(folder.glob("libonnxruntime.so*"))), None)
