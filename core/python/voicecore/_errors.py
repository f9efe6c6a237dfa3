# SPDX-License-Identifier: GPL-3.0-or-later
"""Exceptions of voicecore. The native module raises these same classes."""

from __future__ import annotations


class VoicecoreError(Exception):
    """Base of all errors of this package.

    ``code`` is stable, such as ``"engine.port_in_use"``; `voicecore.error_codes` explains each one.
    The message says where the trouble is and what to do about it.
    """

    code: str

    def __init__(self, message: str, *, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code


class ConfigError(VoicecoreError):
    """A setting that cannot work; the message is ``field: problem; remedy``."""

    def __init__(self, message: str, *, code: str = "config.invalid") -> None:
        super().__init__(message, code=code)

    @property
    def field(self) -> str:
        """Name of the setting, such as ``sip_port`` or ``guard.acl``."""
        return str(self).partition(": ")[0]

    @property
    def problem(self) -> str:
        """What is wrong with it."""
        return str(self).partition(": ")[2].rpartition("; ")[0]

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return str(self).rpartition("; ")[2]


class SignallingError(VoicecoreError):
    """SIP could not do what was asked. ``status`` is the SIP status code, where there was one."""

    status: int | None

    def __init__(self, message: str, *, code: str = "sip.pj", status: int | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status


class CallGone(VoicecoreError):
    """The call has ended."""

    def __init__(self, message: str, *, code: str = "call.gone") -> None:
        super().__init__(message, code=code)


class PlayoutFull(VoicecoreError):
    """``play()`` would queue more than ``playout_max_s``; nothing of the chunk was taken."""

    def __init__(self, message: str, *, code: str = "media.playout_full") -> None:
        super().__init__(message, code=code)
