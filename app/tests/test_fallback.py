# SPDX-License-Identifier: GPL-3.0-or-later
"""The fallback's settings, and calls that go to it as soon as they are answered."""

from __future__ import annotations

import asyncio
import gc

import pytest

from voice_edge.machine import Policy
from voice_edge.settings import SettingsError

from .fakes import FakeCall
from .servers import Received, Wire
from .test_service import Running, models, settings_for
from .virtual import run

HUMAN = "sip:a@192.0.2.9"


def test_settings_reach_the_machine() -> None:
    more = f'[agent.fallback]\ntransfer = "{HUMAN}"\nmenu = "Press 1."\nmenu_s = 5'
    policy = Policy.of(settings_for("http://127.0.0.1:1", more))
    assert (policy.transfer, policy.menu, policy.menu_ns) == (HUMAN, "Press 1.", 5 * 10**9)
    assert {"Press 1.", policy.transfer_phrase} <= set(policy.phrases)
    assert HUMAN not in repr(settings_for("http://127.0.0.1:1", more)), "may be a person's number"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[agent.fallback]\nmenu = "Press 1."', "agent.fallback.menu: leads nowhere without"),
        ('[service]\nadmission = "fallback"', "service.admission: "),
        ('[agent.fallback]\ntransfer = "reception"', "agent.fallback.transfer: is not a SIP URI"),
    ],
)
def test_mistakes_are_told(more: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        settings_for("http://127.0.0.1:1", more)


def test_a_call_nobody_can_carry_goes_to_a_human() -> None:
    down = False

    async def servers(request: Received, wire: Wire) -> None:
        if down and request.path in ("/v1/chat/completions", "/v1/models"):
            await wire.whole("text/plain", b"", 500)
        else:
            await models(request, wire)

    async def scenario() -> None:
        nonlocal down
        more = f'[service]\nadmission = "fallback"\n[agent.fallback]\ntransfer = "{HUMAN}"\n'
        async with Running(servers, more) as r:
            await r.until_ready()
            down = True
            first = r.engine.rings(FakeCall(1))
            await first.hears_end()
            for _ in range(2):
                await first.says("What time is it?")
                await first.hears_end()
            second = r.engine.rings(FakeCall(2))
            await second.hears_end()
            await asyncio.sleep(2.0)
            assert second.answered
            assert second.transfers == [HUMAN]
            assert second.gone
            assert first.transfers == []

    run(scenario())
    gc.unfreeze()
