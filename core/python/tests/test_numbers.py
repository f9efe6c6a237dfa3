# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers out of range, not numbers, and texts that are more than a line are refused with a clear text."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

import voicecore
from voicecore import Address, Call, ConfigError, Engine, EngineConfig, GuardConfig, check_trunk

HUGE = 2**70
WRONG = [-1, HUGE, -HUGE, math.nan, math.inf, -math.inf, 10**400]


def _numbers(of: Any) -> list[tuple[str, Any]]:
    """Keyword arguments that have a number for their default, or None for one."""
    more = {"media_priority", "media_timeout_dtx_s"}
    return [
        (p.name, p.default)
        for p in inspect.signature(of).parameters.values()
        if p.name in more
        or (isinstance(p.default, int | float) and not isinstance(p.default, bool))
    ]


@pytest.mark.parametrize("of", [EngineConfig, GuardConfig])
@pytest.mark.parametrize("wrong", WRONG)
def test_settings(of: Any, wrong: float) -> None:
    numbers = _numbers(of)
    assert len(numbers) > 5
    for name, _ in numbers:
        if wrong == -1 and name.endswith("_level_db"):
            continue  # a decibel less
        # A float for a whole number is another type.
        with pytest.raises((ConfigError, TypeError)) as refused:
            of(**{name: wrong})
        notes = getattr(refused.value, "__notes__", ())
        assert name in f"{refused.value} {notes}"


def test_settings_with_several_numbers() -> None:
    fields: list[tuple[str, Any]] = [
        ("rtp_ports", (HUGE, HUGE)),
        ("rtp_ports", (16384, HUGE)),
        ("media_cores", [HUGE]),
    ]
    for name, value in fields:
        with pytest.raises(ConfigError, match=rf"^{name}: "):
            EngineConfig(**{name: value})


@pytest.mark.parametrize("text", ["192.0.2.53:0", "[2001:db8::53]:0", "192.0.2.53:99999"])
def test_name_servers_have_a_port(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^nameservers: "):
        EngineConfig(nameservers=[text])


def test_large_requests_over_tcp_need_tcp() -> None:
    with pytest.raises(ConfigError, match=r"^large_requests: .*tcp"):
        EngineConfig(large_requests="tcp", tcp=False)


@pytest.mark.parametrize("name", ["a\nERROR b", "a\x1b[2J", "", "  ", "a" * 65, "a\u2028b"])
def test_names_of_trunks_are_a_line(name: str) -> None:
    if name != "a\u2028b":
        with pytest.raises(ConfigError, match=r"^trunk\.name: "):
            check_trunk(server="sip:192.0.2.1", name=name)
    with pytest.raises(ConfigError, match=r"^trunk\.name: "):
        _engine().register(aor="sip:a@b", registrar="sip:b", username="a", password="b", name=name)


def _engine() -> Any:
    """Without types, so that wrong ones can be given."""
    return Engine(EngineConfig(bind="127.0.0.1", sip_port=0))


def _call() -> Any:
    address = Address("sip:a@192.0.2.1")
    native: Any = None
    return Call(native, 1, direction="in", caller=address, dialled=address)


@pytest.mark.parametrize("wrong", [-1, HUGE, math.nan])
def test_playing(wrong: float) -> None:
    call = _call()
    do: Callable[[], object]
    for do in (
        lambda: call.play(b"", wrong, 1),
        lambda: call.play(b"", 8000, wrong),
        lambda: call.finish(wrong),
        lambda: call.clear(wrong),
    ):
        with pytest.raises(ConfigError, match=r"^(rate|turn_id): .+ is out of range; use "):
            do()
    with pytest.raises(ConfigError, match=r"^rate: "):
        call.play(b"", 0, 1)


@pytest.mark.parametrize("wrong", WRONG)
def test_engine(wrong: float) -> None:
    async def main() -> None:
        async with _engine() as engine:
            trunk: Any = {"server": "sip:192.0.2.1"}
            full: Any = {
                "aor": "sip:a@b",
                "registrar": "sip:192.0.2.1",
                "username": "a",
                "password": "b",
            }
            for name in ("expires_s", "retry_first_s", "retry_max_s"):
                with pytest.raises(ConfigError, match=rf"^{name}: "):
                    engine.register(**full, **{name: wrong})
            for name in ("options_s", "options_timeout_s"):
                with pytest.raises(ConfigError, match=rf"^{name}: "):
                    engine.add_trunk("t", **trunk, **{name: wrong})
            with pytest.raises((ConfigError, TypeError), match=r"expires_s"):
                engine.add_trunk("t", **trunk, expires_s=wrong)
            with pytest.raises(ConfigError, match=r"^retry_after_s: "):
                engine.drain(retry_after_s=wrong)
            if not wrong >= 0:
                with pytest.raises(ConfigError, match=r"^timeout_s: "):
                    await engine.dial("sip:a@192.0.2.1", timeout_s=wrong)
                with pytest.raises(ConfigError, match=r"^timeout_s: "):
                    await _call().transfer("sip:a@b", timeout_s=wrong)
            assert engine.trunks == ()
            assert engine.stats().registrations == 0

    asyncio.run(main())


@pytest.mark.parametrize("wrong", WRONG)
def test_refusals_and_keys(wrong: float) -> None:
    async def main() -> None:
        call = _call()
        with pytest.raises(ValueError, match=r"is not a refusal"):
            call.reject(wrong)
        with pytest.raises(ValueError, match=r"retry_after"):
            call.reject(486, retry_after=wrong)
        with pytest.raises(ValueError, match=r"is not a refusal"):
            call.refuse_transfer(wrong)
        for name in ("duration_ms", "gap_ms"):
            with pytest.raises(ValueError, match=name):
                await call.send_dtmf("1", **{name: wrong})

    asyncio.run(main())


def test_an_offer_of_no_codecs_is_none() -> None:
    async def main() -> None:
        lists: list[Any] = [[], (), "PCMA"]
        for wrong in lists:
            with pytest.raises(ConfigError, match=r"^codecs: "):
                await _call().renegotiate(codecs=wrong)

    asyncio.run(main())


def test_what_is_told_of_numbers_is_short() -> None:
    with pytest.raises(ConfigError) as refused:
        _call().play(b"", 10**5000, 1)
    assert len(str(refused.value)) < 100
    assert isinstance(refused.value, voicecore.VoicecoreError)
