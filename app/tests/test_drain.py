# SPDX-License-Identifier: GPL-3.0-or-later
"""A stop that waits for the calls that are up, and who may call when only trunks are named."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voice_edge.callers import LOOK_AGAIN_S, first_acl, host_of, keep_acl
from voice_edge.service import guard_options

from .fakes import FakeCall
from .test_service import FakeEngine, Running, models, settings_for
from .virtual import run


async def _stopped_with_a_call(
    drain_s: float, then: Callable[[Running, FakeCall], Any]
) -> tuple[float, bool]:
    """How long the stop took, and whether we hung up on the caller."""
    more = f"[service]\ndrain_s = {drain_s}"
    async with Running(models, more) as r:
        await r.until_ready()
        call = r.engine.rings(FakeCall())
        await call.hears_end()
        began = asyncio.get_running_loop().time()
        r.service.stop()
        then(r, call)
        await r.task
        assert r.engine.stopped
        assert r.engine.draining == (drain_s > 0)
        return asyncio.get_running_loop().time() - began, call.hung_up


def test_the_stop_waits_for_calls_that_are_up() -> None:
    def leaves(_: Running, call: FakeCall) -> None:
        asyncio.get_running_loop().call_later(7, call.leaves)

    took, hung_up = run(_stopped_with_a_call(30, leaves))
    gc.unfreeze()
    assert took == pytest.approx(8, abs=1.1)
    assert not hung_up


def test_but_no_longer_than_it_may_and_goodbye_is_said() -> None:
    calls: list[FakeCall] = []

    def told(_: Running, call: FakeCall) -> None:
        call.played.clear()
        calls.append(call)

    took, hung_up = run(_stopped_with_a_call(5, told))
    gc.unfreeze()
    (call,) = calls
    assert len({turn for turn, _ in call.played}) == 1, "one goodbye"
    spoken_s = sum(samples for _, samples in call.played) / call.rate
    assert spoken_s > 0.1
    assert took == pytest.approx(6 + spoken_s, abs=1.1)
    assert hung_up


def test_a_goodbye_that_cannot_be_said_holds_nothing_up() -> None:
    def mute(_: Running, call: FakeCall) -> None:
        call.play = lambda *_: None  # type: ignore[method-assign]

    took, hung_up = run(_stopped_with_a_call(5, mute))
    gc.unfreeze()
    assert took <= 5 + 8 + 3
    assert hung_up


def test_and_not_at_all_when_told_a_second_time() -> None:
    def told_again(running: Running, _: FakeCall) -> None:
        asyncio.get_running_loop().call_later(2, running.service.end_drain)

    took, hung_up = run(_stopped_with_a_call(300, told_again))
    gc.unfreeze()
    assert took == pytest.approx(3, abs=1.1)
    assert hung_up


def test_nor_when_so_set() -> None:
    took, hung_up = run(_stopped_with_a_call(0, lambda *_: None))
    gc.unfreeze()
    assert took < 3
    assert hung_up


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("sip:192.0.2.1", "192.0.2.1"),
        ("sip:sip.example.com:5070;transport=tcp", "sip.example.com"),
        ("sips:user@[2001:db8::1]:5061", "2001:db8::1"),
        ("sip:a:b@host?x=y", "host"),
    ],
)
def test_hosts_of_uris(uri: str, host: str) -> None:
    assert host_of(uri) == host


def _trunks(folder: Path, *registrars: str, more: str = "") -> Any:
    (folder / "pw").write_text("sesame\n")
    blocks = "".join(
        f'[[sip.trunk]]\nname = "t{n}"\nregistrar = "{r}"\naor = "sip:a@b"\nusername = "a"\n'
        'password_file = "pw"\n'
        for n, r in enumerate(registrars)
    )
    return settings_for("http://127.0.0.1:1", more + blocks, folder)


def test_who_may_call_is_the_acl_or_the_trunks_or_everybody(tmp_path: Path) -> None:
    assert first_acl(_trunks(tmp_path)) is None
    trunks = ("sip:192.0.2.1", "sip:[2001:db8::1]:5060", "sip:sip.example.com")
    assert first_acl(_trunks(tmp_path, *trunks)) == ["192.0.2.1", "2001:db8::1"]
    acl = '[sip.guard]\nacl = ["198.51.100.0/24"]\nscanners = ["abc"]\n'
    settings = _trunks(tmp_path, *trunks, more=acl)
    assert first_acl(settings) == ["198.51.100.0/24"]
    assert guard_options(settings)["scanners"] == ("abc",)


def test_names_of_trunks_are_looked_up_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[list[str] | OSError] = [
        ["198.51.100.7"],
        OSError(1, "no such name"),
        ["198.51.100.8", "198.51.100.9"],
    ]

    async def resolve(host: str) -> list[str]:
        assert host == "sip.example.com"
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def scenario() -> FakeEngine:
        engine = FakeEngine()
        settings = _trunks(tmp_path, "sip:192.0.2.1", "sip:sip.example.com")
        keeper = asyncio.create_task(keep_acl(settings, engine, resolve))
        await asyncio.sleep(2.5 * LOOK_AGAIN_S)
        keeper.cancel()
        return engine

    assert run(scenario()).acls == [
        ["192.0.2.1", "198.51.100.7"],
        ["192.0.2.1", "198.51.100.8", "198.51.100.9"],
    ]
    assert "sip.example.com is not found: no such name" in caplog.text
