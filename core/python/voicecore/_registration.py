# SPDX-License-Identifier: GPL-3.0-or-later
"""One registration with a SIP registrar."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from voicecore import _core

# An UNREGISTER that gets no answer within 64*T1 (32 s) has failed; an application that leaves does
# not wait that long.
_UNREGISTER_WAIT_S = 5.0

_log = logging.getLogger("voicecore")


class Registration:
    """Kept alive by the core (refresh, digest) until `unregister` or the engine stops."""

    __slots__ = (
        "_callbacks",
        "_changed",
        "_id",
        "_leaving",
        "_name",
        "_native",
        "_reason",
        "_retry_s",
        "_server",
        "_state",
        "_status",
    )

    def __init__(self, native: _core.Engine, registration_id: int, name: str) -> None:
        """Made by `Engine.register`, not by applications."""
        self._native = native
        self._id = registration_id
        self._name = name
        self._state: Literal["trying", "registered", "failed", "unregistered"] = "trying"
        self._status = 0
        self._reason = ""
        self._server: str | None = None
        self._retry_s: float | None = None
        self._leaving = False
        self._callbacks: list[Callable[[Registration], object]] = []
        self._changed = asyncio.Event()

    @property
    def state(self) -> Literal["trying", "registered", "failed", "unregistered"]:
        """Where it stands. From ``"failed"`` the core tries again by itself where that can help."""
        return self._state

    @property
    def status(self) -> int:
        """SIP status of the registrar's last answer, 0 before it."""
        return self._status

    @property
    def name(self) -> str:
        """What log lines call it."""
        return self._name

    @property
    def reason(self) -> str:
        """What goes with `status`: the registrar's words, or what is in the way (a certificate, a name …)."""
        return self._reason

    @property
    def server(self) -> str | None:
        """``address:port`` of the server that answered last, or did not."""
        return self._server

    @property
    def retry_s(self) -> float | None:
        """After a failure: how long the core waits before it tries again."""
        return self._retry_s

    def update_password(self, password: str) -> None:
        """Registers again at once with ``password``, which is used from then on.

        The binding stays meanwhile, and calls that are up do not notice.
        """
        self._native.update_password(self._id, password)

    def on_change(self, callback: Callable[[Registration], object]) -> None:
        """Calls ``callback(registration)`` in the event loop after each change of `state`."""
        self._callbacks.append(callback)

    async def unregister(self) -> None:
        """Takes the binding back; returns when the registrar confirmed, at latest after 5 s."""
        if self._state == "unregistered":
            return
        if not self._leaving:
            self._leaving = True
            self._native.unregister(self._id)
        try:
            async with asyncio.timeout(_UNREGISTER_WAIT_S):
                while self._state not in ("unregistered", "failed"):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._set("unregistered", 408)

    def __repr__(self) -> str:
        return f"<Registration {self._name} {self._state} {self._status}>"

    # What follows is called by Engine.

    def _on_event(self, event: _core.RegistrationChanged) -> None:
        self._reason, self._server, self._retry_s = event.reason, event.server, event.retry_s
        if not 200 <= event.status <= 299:
            self._set("failed" if event.status >= 300 else "trying", event.status)
        else:
            self._set("registered" if event.expires_s > 0 else "unregistered", event.status)

    def _set(
        self, state: Literal["trying", "registered", "failed", "unregistered"], status: int
    ) -> None:
        changed = state != self._state
        self._state, self._status = state, status
        self._changed.set()
        if not changed:
            return
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("registration %s: on_change callback failed", self._name)
