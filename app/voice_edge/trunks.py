# SPDX-License-Identifier: GPL-3.0-or-later
"""The trunks of the settings in the engine, and passwords that change while calls are up."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from .ports import EngineLike
from .process import notify
from .settings import Settings, Trunk
from .settings.errors import BadValueError

_log = logging.getLogger(__name__)

# A password file that was replaced is taken at the latest after this, without any signal.
LOOK_AGAIN_S = 5.0


def trunk_options(trunk: Trunk) -> dict[str, Any]:
    """The arguments of ``Engine.add_trunk``. The cross checks of the settings have made sure that they fit."""
    return {
        "server": trunk.registrar or trunk.server,
        "register": trunk.registrar is not None,
        "aor": trunk.aor,
        "username": trunk.username,
        "password": None if trunk.password_file is None else trunk.password_file.reveal(),
        "realm": trunk.realm,
        "expires_s": trunk.expires_s,
        "proxy": trunk.proxy,
        "options_s": trunk.options_s,
        "srtp": trunk.srtp,
    }


class Trunks:
    """What the engine knows of the trunks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.sip.trunk
        self._secrets = {
            t.name: t.password_file for t in self._settings if t.password_file is not None
        }
        self._known: dict[str, Any] = {}

    def add_to(self, engine: EngineLike) -> None:
        for trunk in self._settings:
            self._known[trunk.name] = engine.add_trunk(trunk.name, **trunk_options(trunk))

    def reread(self) -> int:
        """Take in password files that have changed; how many had."""
        changed = 0
        for name, secret in self._secrets.items():
            try:
                now = secret.reread()
            except BadValueError as error:
                _log.warning("trunk %s: password_file: %s. %s", name, error.what, error.remedy)
                continue
            if now != secret:
                self._secrets[name] = now
                self._known[name].update_password(now.reveal())
                changed += 1
        return changed

    async def keep_reading(self) -> None:
        """Look at the files for ever. What cannot be read is left as it is until it can."""
        stamps = self._stamps()
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            now = self._stamps()
            if now != stamps:
                stamps = now
                self.reread()

    async def keep_telling(self, engine: EngineLike) -> None:
        """Tell systemd for ever how many trunks are up (``systemctl status``; updates compare it)."""
        told = ""
        while self._settings:
            stats = engine.stats()
            now = f"{getattr(stats, 'trunks_up', 0)} of {len(self._settings)} trunks up"
            if now != told:
                told = now
                notify(f"STATUS={now}")
            await asyncio.sleep(LOOK_AGAIN_S)

    def _stamps(self) -> dict[str, Any]:
        return {name: secret.stamp() for name, secret in self._secrets.items()}
