# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call when the settings do not say: the machines of the trunks, looked up by name now and then."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .settings import Settings

_log = logging.getLogger(__name__)

# Providers move; a name that cannot be looked up keeps the addresses it had.
LOOK_AGAIN_S = 300.0
# Settings of a trunk that name a machine of its provider.
_PLACES = ("registrar", "outbound_proxy", "proxy", "server", "uri")

Resolve = Callable[[str], Awaitable[Iterable[str]]]


async def look_up(host: str) -> list[str]:
    """All addresses of a name. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    return [str(entry[4][0]) for entry in found]


def host_of(uri: str) -> str:
    """The host of a SIP URI, without brackets."""
    rest = uri.partition(":")[2].rpartition("@")[2]
    bracketed = re.match(r"\[([0-9A-Fa-f:.]+)\]", rest)
    return bracketed[1] if bracketed else re.split(r"[:;?>]", rest, maxsplit=1)[0]


def trunk_hosts(settings: Settings) -> list[str]:
    """Every host that the trunks name, once."""
    hosts: dict[str, None] = {}
    for trunk in settings.sip.trunk:
        for place in _PLACES:
            named = getattr(trunk, place, None) or ()
            for uri in (named,) if isinstance(named, str) else named:
                if isinstance(uri, str) and (host := host_of(uri)):
                    hosts[host] = None
    return list(hosts)


def _addresses(hosts: Iterable[str]) -> list[str]:
    found = []
    for host in hosts:
        try:
            found.append(str(ipaddress.ip_address(host)))
        except ValueError:
            continue
    return found


def first_acl(settings: Settings) -> list[str] | None:
    """The ACL to start with: the one of the settings, else the trunks' addresses; None when there are no trunks.

    The core adds the machines that it registered with by itself.
    """
    if settings.sip.guard.acl is not None:
        return list(settings.sip.guard.acl)
    return _addresses(trunk_hosts(settings)) if settings.sip.trunk else None


async def keep_acl(settings: Settings, engine: Any, resolve: Resolve = look_up) -> None:
    """Looks the trunks' names up for ever and tells the engine what changed; ends when there are none."""
    if settings.sip.guard.acl is not None:
        return
    hosts = trunk_hosts(settings)
    names = [host for host in hosts if not _addresses([host])]
    known: dict[str, list[str]] = {host: _addresses([host]) for host in hosts}
    while names:
        before = {host: list(found) for host, found in known.items()}
        for name in names:
            try:
                known[name] = sorted(set(await resolve(name)))
            except OSError as error:
                _log.warning("trunk host %s is not found: %s", name, error.strerror or error)
        if known != before:
            acl = sorted({address for found in known.values() for address in found})
            engine.set_acl(acl)
            _log.info("calls are taken from the trunks' %d addresses", len(acl))
        await asyncio.sleep(LOOK_AGAIN_S)
