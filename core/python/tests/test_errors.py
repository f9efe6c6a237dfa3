# SPDX-License-Identifier: GPL-3.0-or-later
"""Every code that can be raised is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import voicecore
from voicecore import CallGone, ConfigError, PlayoutFull, SignallingError, VoicecoreError

PACKAGE = Path(voicecore.__file__).parent


def test_each_code_has_a_meaning() -> None:
    codes = voicecore.error_codes()
    assert len(codes) > 20
    for code, meaning in codes.items():
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)?", code)
        assert len(meaning) > 15


def test_codes_in_the_python_layer_are_known() -> None:
    used = set()
    for source in PACKAGE.glob("*.py"):
        used |= set(re.findall(r'code(?:: str)? ?= ?"([^"]+)"', source.read_text(encoding="utf-8")))
    assert used >= {"call.gone", "config.invalid", "sip.dial_timeout", "sip.call_failed"}
    assert used <= set(voicecore.error_codes())


@pytest.mark.parametrize("kind", [CallGone, ConfigError, PlayoutFull, SignallingError])
def test_one_hierarchy(kind: type[VoicecoreError]) -> None:
    error = kind("text")
    assert isinstance(error, VoicecoreError)
    assert error.code in voicecore.error_codes()
    assert str(error) == "text"
