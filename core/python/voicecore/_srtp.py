# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose calls are encrypted otherwise than the engine's settings say: trunks with a mode of their own."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable

from voicecore import _core
from voicecore._address import Address
from voicecore._errors import ConfigError, VoicecoreError
from voicecore._trunk import Trunk

_log = logging.getLogger("voicecore")

MODES = ("off", "optional", "required")
# Providers move; a name that cannot be looked up keeps the addresses it had.
LOOK_AGAIN_S = 300.0

Resolve = Callable[[str], Awaitable[Iterable[str]]]


def checked(mode: str | None) -> str | None:
    """The mode. Raises ConfigError."""
    if mode is not None and mode not in MODES:
        raise ConfigError(f'srtp: {mode!r} is not known; use "off", "optional" or "required"')
    return mode


async def look_up(host: str) -> list[str]:
    """All addresses of a name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    return [str(entry[4][0]) for entry in found]


class SrtpPeers:
    """Tells the core which addresses belong to trunks whose ``srtp`` was given."""

    def __init__(self, native: _core.Engine, resolve: Resolve = look_up) -> None:
        self._native = native
        self._resolve = resolve
        self._modes: dict[Trunk, str] = {}
        self._found: dict[str, list[str]] = {}
        self._told: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, trunk: Trunk, mode: str) -> None:
        """From now on calls from this trunk follow ``mode``: from its names' addresses, and the one in use."""
        self._modes[trunk] = mode
        trunk.on_change(lambda _: self._tell())
        self._tell()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())

    def remove(self, trunk: Trunk) -> None:
        """The engine's own mode holds again."""
        if self._modes.pop(trunk, None) is not None:
            self._tell()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep(self) -> None:
        while True:
            names = {host for trunk in self._modes for host in _hosts(trunk) if not _literal(host)}
            for name in names:
                try:
                    self._found[name] = list(await self._resolve(name))
                except OSError as error:
                    _log.warning("trunk host %s is not found: %s", name, error.strerror or error)
            self._tell()
            await asyncio.sleep(LOOK_AGAIN_S)

    def _tell(self) -> None:
        modes: dict[str, str] = {}
        for trunk, mode in self._modes.items():
            for address in self._addresses(trunk):
                # Two trunks on one machine cannot be told apart: the stricter mode holds for both.
                known = modes.get(address, mode)
                modes[address] = max(known, mode, key=MODES.index)
        if modes == self._told:
            return
        try:
            self._native.set_srtp_of(list(modes.items()))
            self._told = modes
        except VoicecoreError:
            _log.debug("the engine stops; it takes no more addresses of trunks")

    def _addresses(self, trunk: Trunk) -> Iterable[str]:
        for host in _hosts(trunk):
            literal = _literal(host)
            yield from (literal,) if literal else self._found.get(host, ())
        if trunk.server is not None:
            used = _literal(trunk.server.rpartition(":")[0].strip("[]"))
            if used:
                yield used


def _hosts(trunk: Trunk) -> list[str]:
    return [host for uri in (trunk._server, trunk._proxy) if uri and (host := Address(uri).host)]


def _literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None
