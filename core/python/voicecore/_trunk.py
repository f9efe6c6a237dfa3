# SPDX-License-Identifier: GPL-3.0-or-later
"""Trunks: where calls come from and go to."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Literal

from voicecore import _core
from voicecore._errors import ConfigError
from voicecore._registration import Registration

_log = logging.getLogger("voicecore")

# What may stand in the user part of a SIP URI without being escaped (RFC 3261 25.1).
_USER = re.compile(r"[A-Za-z0-9\-_.!~*'()&=+$,;?/%#]+")


class Trunk:
    """A provider or a PBX, made by `Engine.add_trunk`."""

    def __init__(
        self,
        native: _core.Engine,
        name: str,
        server: str,
        *,
        proxy: str | None,
        aor: str | None,
        username: str | None,
        password: str | None,
        registration: Registration | None,
        srtp: str | None = None,
    ) -> None:
        """Made by `Engine.add_trunk`, not by applications."""
        self._native = native
        self._name = name
        self._server = server
        self._proxy = proxy
        self._aor = aor
        self._username = username
        self._password = password
        self._registration = registration
        self._srtp = srtp
        self._watch: int | None = None
        self._state: Literal["unknown", "up", "down"] = "unknown"
        self._status = 0
        self._reason = ""
        self._rtt_ms: float | None = None
        self._peer: str | None = None
        self._callbacks: list[Callable[[Trunk], object]] = []
        self._forget: Callable[[], None] = lambda: None
        if registration is not None:
            registration.on_change(lambda _: self._changed())

    @property
    def name(self) -> str:
        """As given; it is what log lines call the trunk."""
        return self._name

    @property
    def registration(self) -> Registration | None:
        """Kept at the trunk; None for one that knows us by our address."""
        return self._registration

    @property
    def srtp(self) -> str | None:
        """Whether media of its calls is encrypted; None is as the engine is configured."""
        return self._srtp

    @property
    def state(self) -> Literal["unknown", "up", "down"]:
        """Whether it answered OPTIONS last time; where it is not asked, whether the registration stands."""
        if self._watch is not None or self._registration is None:
            return self._state
        if self._registration.state == "registered":
            return "up"
        return "down" if self._registration.state == "failed" else "unknown"

    @property
    def status(self) -> int:
        """SIP status of its last answer to OPTIONS; 408, 502 or 503 also when none came, 0 before."""
        return self._status

    @property
    def reason(self) -> str:
        """What goes with `status`: the trunk's words, or what is in the way (a certificate, a name …)."""
        return self._reason

    @property
    def rtt_ms(self) -> float | None:
        """From the last OPTIONS to its answer, ms."""
        return self._rtt_ms

    @property
    def server(self) -> str | None:
        """``address:port`` of the server that answered OPTIONS last, or did not."""
        return self._peer

    def on_change(self, callback: Callable[[Trunk], object]) -> None:
        """Calls ``callback(trunk)`` in the event loop when `state` or the registration's state changes."""
        self._callbacks.append(callback)

    def update_password(self, password: str) -> None:
        """Uses another password from now on: for the registration, at once, and for calls.

        Calls that are up do not notice.
        """
        self._password = password
        if self._registration is not None:
            self._registration.update_password(password)

    async def remove(self) -> None:
        """Unregisters and sends no more OPTIONS. Calls that are up go on."""
        if self._watch is not None:
            self._native.unwatch(self._watch)
            self._watch = None
        self._forget()
        if self._registration is not None:
            await self._registration.unregister()

    def uri(self, target: str) -> str:
        """The SIP URI by which ``target`` is called over this trunk: a number or name, or a whole URI, which stays.

        Raises:
            ConfigError: ``target`` is neither.
        """
        if target.lower().startswith("sip:"):
            return target
        if not _USER.fullmatch(target):
            # Not shown: it may be a telephone number.
            raise ConfigError("the number to call has characters that no SIP URI can have")
        return f"sip:{target}@{self._server[4:].rpartition('@')[2]}"

    def __repr__(self) -> str:
        return f"<Trunk {self._name} {self.state}>"

    # What follows is called by Engine.

    def _on_event(self, event: _core.TrunkAnswered) -> None:
        before = self._state
        self._state = "up" if event.alive else "down"
        self._status, self._reason = event.status, event.reason
        self._rtt_ms, self._peer = event.rtt_ms, event.server
        if before != self._state:
            self._changed()

    def _changed(self) -> None:
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("trunk %s: on_change callback failed", self._name)
