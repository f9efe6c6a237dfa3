# SPDX-License-Identifier: GPL-3.0-or-later
"""Which onnxruntime the settings mean."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from voice_edge.service import engine_options
from voice_edge.settings import SettingsError, loads, stock

from .test_settings import MINIMAL


def test_the_kernel_needs_none_and_the_package_s_is_found(tmp_path: Path) -> None:
    assert engine_options(loads(MINIMAL, file="f.toml", base=None))["vad_onnxruntime"] is None
    chosen = MINIMAL + '[vad]\nbackend = "onnxruntime"\n'
    found = engine_options(loads(chosen, file="f.toml", base=None))["vad_onnxruntime"]
    assert found.name.startswith("libonnxruntime.so")
    own = tmp_path / "own.so"
    own.write_bytes(b"")
    named = chosen + 'onnxruntime = "own.so"\n'
    assert engine_options(loads(named, file="f.toml", base=tmp_path))["vad_onnxruntime"] == own


@pytest.mark.parametrize("package", [None, SimpleNamespace(origin=None)])
def test_without_the_package_the_remedy_is_told(
    package: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "find_spec", lambda name: package)
    with pytest.raises(SettingsError, match=r"vad\.backend.*not installed"):
        loads(MINIMAL + '[vad]\nbackend = "onnxruntime"\n', file="f.toml", base=None)
