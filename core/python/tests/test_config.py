# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings are refused by name, with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voicecore import ConfigError, EngineConfig


def test_defaults() -> None:
    config = EngineConfig()
    assert (config.bind, config.sip_port, config.tcp) == ("0.0.0.0", 5060, True)
    assert config.rtp_ports == (16384, 32767)
    assert config.codecs == ["PCMA", "PCMU", "G722"]
    assert config.recording_dir is None
    assert config.media_priority is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bind", "localhost"),
        ("sip_port", -1),
        ("sip_port", 65536),
        ("public_address", "nat.example.org"),
        ("public_address", "0.0.0.0"),
        ("public_address", "::1"),
        ("rtp_ports", (80, 90)),
        ("rtp_ports", (20000, 19999)),
        ("rtp_ports", (20000, 70000)),
        ("rtp_ports", (20000, 20100)),
        ("rtp_ports", (5000, 6000)),
        ("codecs", []),
        ("codecs", ["OPUS"]),
        ("codecs", ["PCMA", "pcma"]),
        ("max_calls", 0),
        ("max_calls", -1),
        ("user_agent", "x\r\nVia: evil"),
        ("prack", "always"),
        ("session_timer", "sometimes"),
        ("session_expires_s", 89),
        ("min_session_expires_s", 30),
        ("transfer_requests", "yes"),
        ("replaces", ""),
        ("redirects", 21),
        ("redirects", -1),
        ("large_requests", "sctp"),
        ("recording_dir", "/nowhere/at/all"),
        ("gain_target_dbov", -9.0),
        ("gain_max_db", float("nan")),
        ("voice_level_db", 20.5),
        ("background_level_db", -41.0),
        ("duck_db", 1.0),
        ("delivery", "all"),
        ("chunk_ms", 30),
        ("chunk_ms", 500),
        ("background", "/nowhere/at/all.wav"),
        ("background", __file__),
        ("preroll_ms", -1),
        ("preroll_ms", 5000),
        ("vad_threshold", 0.0),
        ("vad_threshold", float("nan")),
        ("vad_release", 0.6),
        ("speech_start_ms", 3000),
        ("speech_end_ms", 1),
        ("jitter_min_ms", 5000),
        ("jitter_max_ms", 10),
        ("media_timeout_s", 0.0),
        ("media_timeout_dtx_s", 5.0),
        ("dtmf", "inband"),
        ("playout_max_s", float("inf")),
        ("media_cores", [-1]),
        ("media_priority", 0),
        ("media_priority", 100),
    ],
)
def test_bad_values_name_their_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: .+; .+") as refused:
        EngineConfig(**{field: value})
    assert refused.value.code == "config.invalid"


def test_what_is_given_is_kept(tmp_path: Path) -> None:
    config = EngineConfig(
        bind="::1", sip_port=0, codecs=("pcmu",), recording_dir=tmp_path, media_priority=10
    )
    assert (config.bind, config.sip_port, config.codecs) == ("::1", 0, ["PCMU"])
    assert config.recording_dir == str(tmp_path)
    assert config.media_priority == 10


def test_it_is_frozen_and_keyword_only() -> None:
    config = EngineConfig()
    with pytest.raises(AttributeError):
        config.bind = "127.0.0.1"  # type: ignore[misc]
    with pytest.raises(TypeError):
        EngineConfig("127.0.0.1")  # type: ignore[call-arg]
