# SPDX-License-Identifier: GPL-3.0-or-later
"""The core's own rules for settings, asked before anything starts, in the words of the settings file.

``check`` and ``run`` go through here alike, so that what one passes the other does not refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .service import engine_options, guard_options
from .settings import Problem, Settings, SettingsError, Trunk
from .settings.problems import key_lines
from .trunks import trunk_options

# What the core calls it, and the key in the file; what is not here is the same behind "sip.".
_KEYS = {
    "sip_port": "sip.port",
    "recording_dir": "recording.dir",
    "vad_threshold": "vad.threshold",
    "vad_release": "vad.release",
    "speech_start_ms": "vad.speech_start_ms",
    "speech_end_ms": "vad.speech_end_ms",
    "preroll_ms": "vad.preroll_ms",
    "vad_onnxruntime": "vad.onnxruntime",
    "jitter_min_ms": "media.jitter_min_ms",
    "jitter_max_ms": "media.jitter_max_ms",
    "media_timeout_s": "media.timeout_s",
    "media_timeout_dtx_s": "media.timeout_dtx_s",
    "playout_max_s": "media.playout_max_s",
    "media_cores": "media.cores",
    "media_priority": "media.priority",
    "comfort_noise": "media.comfort_noise",
    "dtmf": "media.dtmf",
    "srtp": "media.srtp",
    "chunk_ms": "media.chunk_ms",
    "echo_guard": "media.echo_guard",
    "noise_suppression": "media.noise_suppression",
    "gain": "media.gain.enabled",
    "gain_target_dbov": "media.gain.target_dbov",
    "gain_max_db": "media.gain.max_db",
    "voice_level_db": "media.mix.voice_db",
    "background": "media.mix.background",
    "background_level_db": "media.mix.background_db",
    "duck_db": "media.mix.duck_db",
    "tls_port": "sip.tls.port",
    "tls_ca_file": "sip.tls.ca_file",
    "tls_cert_file": "sip.tls.cert_file",
    "tls_key_file": "sip.tls.key_file",
    "tls_verify_client": "sip.tls.verify_client",
    "session_timer": "sip.timers.session",
    "session_expires_s": "sip.timers.session_expires_s",
    "min_session_expires_s": "sip.timers.min_session_expires_s",
    "guard.users": "sip.guard.user",
}
# Of one word, and so only looked for where they are sure to be meant.
_PLAIN = ("bind", "tcp", "codecs", "max_calls", "rtp_ports", "public_address", "user_agent")
_NAMES = re.compile(
    r"(?<![\w.])(guard\.\w+|"
    + "|".join(
        sorted(
            {k for k in _KEYS if "." not in k} - {"background", "gain"} | set(_PLAIN),
            key=len,
            reverse=True,
        )
    )
    + r")(?!\w)"
)
_OF_TRUNKS = ("server", "proxy", "aor", "username", "password", "realm", "expires_s")
_TRUNK_KEYS = {"password": "password_file"}


def key_of(field: str) -> str:
    """The key in the settings file of a field of the core."""
    if field.startswith("guard."):
        return _KEYS.get(field, f"sip.{field}")
    return _KEYS.get(field, f"sip.{field}")


def in_our_words(text: str) -> str:
    """A message of the core with the keys of the settings file in place of the core's names."""
    return _NAMES.sub(lambda found: key_of(found[0]), text)


def check_core(settings: Settings, path: Path) -> None:
    """Raises SettingsError with what the core would refuse. Silent where there is no core: others tell that."""
    try:
        import voicecore
    except ImportError:
        return
    problems = list(_problems(settings, voicecore))
    if problems:
        lines = key_lines(path.read_text(encoding="utf-8-sig"))
        raise SettingsError(
            [
                Problem(str(path), key, what, remedy, _line(lines, key))
                for key, what, remedy in problems
            ]
        )


def _line(lines: dict[str, int], key: str) -> int | None:
    return lines.get(key) or lines.get(key.rpartition(".")[0])


def _problems(settings: Settings, voicecore: Any) -> Iterator[tuple[str, str, str]]:
    try:
        guard = voicecore.GuardConfig(**guard_options(settings))
        # The folder for recordings is made at the start.
        options = engine_options(settings) | {"recording_dir": None}
        voicecore.EngineConfig(**options, guard=guard)
    except voicecore.ConfigError as error:
        yield _problem(key_of(error.field), error)
    for index, trunk in enumerate(settings.sip.trunk):
        try:
            voicecore.check_trunk(**_trunk(trunk))
        except voicecore.ConfigError as error:
            name = error.field.removeprefix("trunk.")
            if name == "server" and trunk.registrar is not None:
                name = "registrar"
            yield _problem(f"sip.trunk[{index}].{_TRUNK_KEYS.get(name, name)}", error)


def _trunk(trunk: Trunk) -> dict[str, Any]:
    options = trunk_options(trunk)
    return {name: options[name] for name in _OF_TRUNKS} | {"name": trunk.name}


def _problem(key: str, error: Any) -> tuple[str, str, str]:
    remedy = in_our_words(error.remedy)
    return key, in_our_words(error.problem), remedy[:1].upper() + remedy[1:]
