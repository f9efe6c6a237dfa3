# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes the app relies on. ``voicecore`` and the clients have them, and so have the fakes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Protocol

from .machine import events as ev
from .machine.turns import COUNT_RATE


class CallLike(Protocol):
    """``voicecore.Call``, as far as the app uses it."""

    @property
    def id(self) -> int: ...
    @property
    def sip_call_id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def recording(self) -> str | None: ...
    @property
    def rate(self) -> int: ...
    def ring(self) -> None: ...
    async def answer(self) -> None: ...
    def reject(self, status: int = 486, *, retry_after: int | None = None) -> None: ...
    def hangup(self) -> None: ...
    async def transfer(
        self, target: str, *, timeout_s: float = 60.0, hangup: bool = True
    ) -> int: ...
    def play(self, pcm: bytes, rate: int, turn_id: int) -> None: ...
    def finish(self, turn_id: int) -> None: ...
    def clear(self, turn_id: int | None = None) -> None: ...
    def events(self) -> AsyncIterator[Any]: ...
    def stats(self) -> Any: ...


class EngineLike(Protocol):
    """``voicecore.Engine``, as far as the app uses it."""

    @property
    def sip_address(self) -> tuple[str, int]: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def incoming(self) -> AsyncIterator[Any]: ...
    def add_trunk(
        self,
        name: str,
        *,
        server: str,
        register: bool = False,
        aor: str | None = None,
        username: str | None = None,
        password: str | None = None,
        realm: str = "*",
        expires_s: int = 300,
        proxy: str | None = None,
        options_s: float = 0.0,
        srtp: str | None = None,
    ) -> Any: ...
    def drain(self, *, retry_after_s: int = 30) -> None: ...
    def reload_tls(self) -> None: ...
    def set_acl(self, acl: Sequence[str] | None) -> None: ...
    def stats(self) -> Any: ...


class LanguageModel(Protocol):
    def reply(self, messages: Sequence[ev.Message]) -> AsyncGenerator[str | ev.ToolCall, None]: ...


class Voice(Protocol):
    @property
    def rate(self) -> int: ...
    def speak(self, text: str) -> AsyncGenerator[bytes, None]: ...


class Recogniser(Protocol):
    async def transcribe(self, pcm: bytes, rate: int) -> str: ...


def is_error(error: BaseException, name: str) -> bool:
    """Whether ``error`` is voicecore's class ``name``, without importing voicecore."""
    return any(cls.__name__ == name for cls in type(error).__mro__)


def line_event(event: Any, rate: int) -> ev.Event | None:
    """A call event of voicecore as the machine's; None for audio and kinds unknown here.

    ``rate`` is the line's, in which voicecore counts samples.

    By class name, so that unit tests need no native module.
    """
    match type(event).__name__:
        case "SpeechStarted":
            return ev.SpeechStarted(event.at_ns, event.decided_ns)
        case "SpeechEnded":
            return ev.SpeechEnded(event.at_ns, event.decided_ns)
        case "PlayoutStarted":
            return ev.PlayoutStarted(event.turn_id, event.at_ns)
        case "PlayoutFinished":
            samples = event.samples * COUNT_RATE // rate
            return ev.PlayoutFinished(event.turn_id, samples, event.at_ns, event.interrupted)
        case "Dtmf":
            return ev.Key(event.digit)
        case "MediaTimeout":
            return ev.MediaTimeout(event.silent_s)
        case "CallEnded":
            return ev.CallEnded(event.status, event.reason, event.by_remote)
    return None
