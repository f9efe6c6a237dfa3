# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that the model servers cannot carry are refused before they are answered."""

from __future__ import annotations

import asyncio
import gc

import pytest

from voice_edge.check import check

from .fakes import FakeCall
from .servers import Received, Wire
from .test_service import Running, models, settings_for
from .virtual import run


class Failing:
    """All three servers in one, of which the model can fail."""

    def __init__(self) -> None:
        self.down = False

    async def __call__(self, request: Received, wire: Wire) -> None:
        if self.down and request.path in ("/v1/chat/completions", "/v1/models"):
            await wire.whole("text/plain", b"", 500)
        else:
            await models(request, wire)


async def _fails_twice(r: Running) -> FakeCall:
    call = r.engine.rings(FakeCall(1))
    await call.hears_end()
    for _ in range(2):
        await call.says("What time is it?")
        await call.hears_end()
    return call


@pytest.mark.parametrize("admission", ["refuse", "answer"])
def test_a_call_nobody_can_carry(admission: str, caplog: pytest.LogCaptureFixture) -> None:
    servers = Failing()

    async def scenario() -> None:
        async with Running(servers, f'[service]\nadmission = "{admission}"') as r:
            await r.until_ready()
            servers.down = True
            first = await _fails_twice(r)
            second = r.engine.rings(FakeCall(2))
            await asyncio.sleep(0.1)
            assert not first.gone
            assert second.answered is (admission == "answer")
            assert second.gone is (admission == "refuse")
            servers.down = False
            await asyncio.sleep(31.0)
            third = r.engine.rings(FakeCall(3))
            await third.hears_end()
            assert third.answered

    run(scenario())
    gc.unfreeze()
    assert ("call=2 refused: no llm server answers" in caplog.text) is (admission == "refuse")


def test_a_backup_carries_calls(caplog: pytest.LogCaptureFixture) -> None:
    async def only_backup(request: Received, wire: Wire) -> None:
        if request.path.startswith("/v1/chat"):
            await wire.whole("text/plain", b"", 500)
        else:
            await models(request, wire)

    async def scenario() -> None:
        backup = Running(models)
        async with backup.server.running() as server:
            more = f'[[llm.backup]]\nurl = "{server.url}"'
            async with Running(only_backup, more) as r:
                await r.until_ready()
                call = r.engine.rings(FakeCall(1))
                await call.hears_end()
                for _ in range(3):
                    await call.says("What time is it?")
                    await call.hears_end()
                assert [q.path for q in server.requests] == ["/v1/chat/completions"] * 3

    run(scenario())
    gc.unfreeze()
    assert "llm failed, asking another" in caplog.text


def test_check_asks_the_backups_too() -> None:
    found = []

    async def scenario() -> None:
        running = Running(models)
        async with running.server.running() as server:
            more = '[[llm.backup]]\nurl = "http://127.0.0.1:9"'
            found.extend(await check(settings_for(server.url, more)))

    run(scenario())
    states = {f.name: f.state for f in found}
    assert states["llm"] == "ok"
    assert states["llm backup 1"] == "fail"
