# SPDX-License-Identifier: GPL-3.0-or-later
"""``media.path = "python"``: callers are heard by the plain Python path of a checkout instead of by the core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from .settings import Settings


def engine_options(settings: Settings) -> dict[str, Any]:
    """What the core is told beside its other settings: for the Python path it does nothing but to tell every frame."""
    if settings.media.path == "core":
        return {}
    off = dict.fromkeys(("vad", "gain", "echo_guard"), False)
    return {"delivery": "frames", "chunk_ms": 20, **off}


class HeardCall:
    """A call whose events come by the Python path; all else is the core's."""

    def __init__(self, call: Any, path: Any) -> None:
        self._call, self._path = call, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def events(self) -> AsyncIterator[Any]:
        events: AsyncIterator[Any] = self._path.events(self._call)
        return events


class Hearing:
    """Whoever hears the calls."""

    def __init__(self, settings: Settings) -> None:
        self._path: Any = None
        if settings.media.path == "core":
            return
        reference, level, live = (
            import_module(f"core.reference.{name}") for name in ("speech", "level", "live")
        )
        vad, gain = settings.vad, settings.media.gain
        self._path = live.PythonPath(
            reference.Settings(
                threshold=vad.threshold,
                release=vad.release,
                start_ms=vad.speech_start_ms,
                end_ms=vad.speech_end_ms,
                preroll_ms=vad.preroll_ms,
            ),
            level.GainSettings(gain.enabled, gain.target_dbov, gain.max_db),
        )

    def hear(self, call: Any) -> Any:
        """The call, as its session is to have it."""
        return call if self._path is None else HeardCall(call, self._path)

    def close(self) -> None:
        if self._path is not None:
            self._path.close()
