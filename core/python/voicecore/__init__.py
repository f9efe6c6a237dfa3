# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP calls with audio and voice activity, from a Rust core, on asyncio.

Times are CLOCK_MONOTONIC nanoseconds (`time.monotonic_ns`). PCM is int16 little-endian mono.

    async with Engine(EngineConfig(sip_port=5060)) as engine:
        async for call in engine.incoming():
            await call.answer()
            call.play(pcm, 8000, turn_id=1)
            async for event in call.events():
                ...
"""

from voicecore._address import Address
from voicecore._aio import Engine
from voicecore._call import Call, CallEvent
from voicecore._core import (
    Audio,
    Background,
    CallEnded,
    CallHeld,
    CallProgress,
    CallResumed,
    CallStats,
    Dtmf,
    EarlyMedia,
    EngineConfig,
    EngineStats,
    GuardConfig,
    MediaTimeout,
    PlayoutFinished,
    PlayoutStarted,
    SpeechEnded,
    SpeechStarted,
    ThreadStalled,
    TransferProgress,
    check_trunk,
    error_codes,
    version,
)
from voicecore._dialog import CallReplaced, TransferRequested
from voicecore._errors import (
    CallGone,
    ConfigError,
    PlayoutFull,
    SignallingError,
    VoicecoreError,
)
from voicecore._registration import Registration
from voicecore._trunk import Trunk

__all__ = [
    "Address",
    "Audio",
    "Background",
    "Call",
    "CallEnded",
    "CallEvent",
    "CallGone",
    "CallHeld",
    "CallProgress",
    "CallReplaced",
    "CallResumed",
    "CallStats",
    "ConfigError",
    "Dtmf",
    "EarlyMedia",
    "Engine",
    "EngineConfig",
    "EngineStats",
    "GuardConfig",
    "MediaTimeout",
    "PlayoutFinished",
    "PlayoutFull",
    "PlayoutStarted",
    "Registration",
    "SignallingError",
    "SpeechEnded",
    "SpeechStarted",
    "ThreadStalled",
    "TransferProgress",
    "TransferRequested",
    "Trunk",
    "VoicecoreError",
    "__version__",
    "check_trunk",
    "error_codes",
]

__version__ = version()
