# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed settings of the agent, read from TOML.

``load(path)`` gives a frozen :class:`Settings`; :class:`SettingsError` lists every problem at once.
"""

from .model import (
    Agent,
    Guard,
    GuardUser,
    Llm,
    Log,
    Media,
    Recording,
    Server,
    Settings,
    Sip,
    Stt,
    Tls,
    Trunk,
    Tts,
    Vad,
)
from .problems import Problem, SettingsError
from .reader import load, loads
from .secret import Secret

__all__ = [
    "Agent",
    "Guard",
    "GuardUser",
    "Llm",
    "Log",
    "Media",
    "Problem",
    "Recording",
    "Secret",
    "Server",
    "Settings",
    "SettingsError",
    "Sip",
    "Stt",
    "Tls",
    "Trunk",
    "Tts",
    "Vad",
    "load",
    "loads",
]
