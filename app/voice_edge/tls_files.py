# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of SIP that are renewed while calls are up."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from .ports import EngineLike
from .settings import Settings

_log = logging.getLogger(__name__)

# Files that were replaced are taken at the latest after this, without any signal.
LOOK_AGAIN_S = 5.0


class TlsFiles:
    """The files of [sip.tls], and what they were when they were read last."""

    def __init__(self, settings: Settings) -> None:
        tls = settings.sip.tls
        self._files = [f for f in (tls.ca_file, tls.cert_file, tls.key_file) if f is not None]
        self._read = self._stamps()

    def reread(self, engine: EngineLike) -> bool:
        """Have the engine read them again when they have changed. What does not fit is told, and the old ones stay."""
        now = self._stamps()
        if now == self._read:
            return False
        self._read = now
        try:
            engine.reload_tls()
        except Exception as error:
            # A certificate that is written before its key does not fit for a moment; the next look finds both.
            _log.warning("sip.tls: the files have changed and cannot be used: %s", error)
            return False
        return True

    async def keep_reading(self, engine: EngineLike) -> None:
        """Look at them for ever."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            self.reread(engine)

    def _stamps(self) -> list[tuple[int, ...]]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> tuple[int, ...]:
    """Differs when the file was written or replaced."""
    try:
        now = path.stat()
    except OSError:
        return ()
    return (now.st_ino, now.st_mtime_ns, now.st_size)
