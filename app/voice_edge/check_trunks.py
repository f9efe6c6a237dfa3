# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the trunks of the settings can be reached: one OPTIONS to each, from a port of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from .service import engine_options
from .settings import Settings
from .trunks import trunk_options

# For a name server that does not answer, and two servers of a name of which one is silent.
_WAIT_S = 10.0
_TIMEOUT_S = 3.0
_ONLY = ("bind", "public_address", "nameservers", "tcp")


async def ask(settings: Settings) -> list[tuple[str, bool, str]]:
    """(name, up, what is known) of each trunk.

    Nothing is registered: a binding of this check's would draw calls away from the service that runs.

    Raises:
        ImportError: voicecore is not installed.
        voicecore.VoicecoreError: the core cannot be started with these settings.
    """
    if not settings.sip.trunk:
        return []
    import voicecore

    options = engine_options(settings)
    kept = {name: value for name, value in options.items() if name in _ONLY or "tls" in name}
    config = voicecore.EngineConfig(**{**kept, "sip_port": 0, "tls_port": 0, "max_calls": 1})
    async with voicecore.Engine(config) as engine:
        asked = []
        for trunk in settings.sip.trunk:
            more: dict[str, Any] = {
                **trunk_options(trunk),
                "register": False,
                "options_s": 60.0,
                "options_timeout_s": _TIMEOUT_S,
            }
            asked.append(engine.add_trunk(trunk.name, **more))
        answered = asyncio.Event()
        for each in asked:
            each.on_change(lambda _: answered.set())
        try:
            async with asyncio.timeout(_WAIT_S):
                while any(each.state == "unknown" for each in asked):
                    answered.clear()
                    await answered.wait()
        except TimeoutError:
            pass
        return [(each.name, each.state == "up", _words(each)) for each in asked]


def _words(trunk: Any) -> str:
    if trunk.state == "up":
        return f"answers OPTIONS at {trunk.server} with {trunk.status}, {trunk.rtt_ms:.0f} ms"
    place = f" at {trunk.server}" if trunk.server else ""
    why = f"{trunk.status} {trunk.reason}" if trunk.status else "no answer yet"
    return f"no answer to OPTIONS{place}: {why}; see server, registrar and proxy, and [sip.tls]"
