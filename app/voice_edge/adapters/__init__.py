# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of the model servers, each with deadlines, cancellation and its own latency figures."""

from .errors import ServerError, Stage
from .llm import LlmClient
from .metrics import Metrics
from .pool import LlmPool, Pool, SttPool, TtsPool
from .stt import SttClient
from .tts import TtsClient

__all__ = [
    "LlmClient",
    "LlmPool",
    "Metrics",
    "Pool",
    "ServerError",
    "Stage",
    "SttClient",
    "SttPool",
    "TtsClient",
    "TtsPool",
]
