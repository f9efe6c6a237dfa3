# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of TLS that change are read again once; what cannot be used is told and changes nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from voice_edge.settings import loads
from voice_edge.tls_files import TlsFiles

from .test_settings import MINIMAL


@dataclasses.dataclass
class Engine:
    reloads: int = 0
    wrong: Exception | None = None

    def reload_tls(self) -> None:
        self.reloads += 1
        if self.wrong is not None:
            raise self.wrong


def test_a_renewed_certificate_is_taken_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("sip.pem", "sip.key"):
        (tmp_path / name).write_text("first")
    text = MINIMAL + '[sip.tls]\ncert_file = "sip.pem"\nkey_file = "sip.key"\n'
    files, engine = TlsFiles(loads(text, file="f.toml", base=tmp_path)), Engine()
    asked: Any = engine
    assert not files.reread(asked)
    (tmp_path / "new").write_text("second")
    (tmp_path / "new").replace(tmp_path / "sip.pem")
    engine.wrong = RuntimeError("the key does not belong to it")
    assert not files.reread(asked)
    assert "the key does not belong to it" in caplog.text
    assert not files.reread(asked)
    assert engine.reloads == 1, "told once, not at every look"
    engine.wrong = None
    (tmp_path / "sip.key").write_text("second key")
    assert files.reread(asked)
    (tmp_path / "sip.key").unlink()
    assert files.reread(asked)
    assert engine.reloads == 3


def test_without_files_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    engine = Engine()
    asked: Any = engine
    assert not TlsFiles(loads(MINIMAL, file="f.toml", base=tmp_path)).reread(asked)
    assert engine.reloads == 0
