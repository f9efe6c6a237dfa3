# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys between two engines of one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from loopback import Pair, StartEngine, collect, next_of, soon
from voicecore import CallEnded, CallGone, Dtmf, SignallingError

TYPED = "73*9#"


def typed(events: Sequence[object]) -> str:
    return "".join(event.digit for event in events if isinstance(event, Dtmf))


async def test_keys_arrive_in_order_and_no_log_has_them(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    out, into = await pair.connect()
    await soon(out.send_dtmf(TYPED, duration_ms=60, gap_ms=60))
    await soon(into.send_dtmf("A"))
    first = await soon(next_of(out, Dtmf))
    assert (first.digit, first.source, first.duration_ms) == ("A", "rtp", 160)
    await asyncio.sleep(0.2)
    out.hangup()
    there = await soon(collect(into))
    assert typed(there) == TYPED
    presses = [event for event in there if isinstance(event, Dtmf)]
    assert [press.at_ns for press in presses] == sorted(press.at_ns for press in presses)
    assert all(press.duration_ms == 60 for press in presses)
    assert "Dtmf" not in caplog.text
    for press in presses:
        assert repr(press).startswith("Dtmf(digit=…, duration_ms=60")


async def test_keys_by_info(start_engine: StartEngine) -> None:
    pair = Pair(await start_engine(dtmf="info"), await start_engine())
    out, into = await pair.connect()
    await soon(out.send_dtmf("40#", duration_ms=40, gap_ms=40))
    out.hangup()
    there = await soon(collect(into))
    assert typed(there) == "40#"
    assert {event.source for event in there if isinstance(event, Dtmf)} == {"info"}


async def test_what_cannot_be_sent_is_an_error_that_names_no_key(pair: Pair) -> None:
    out, into = await pair.connect()
    for digits in ("", "12x", "1 2", "1" * 65):
        with pytest.raises(ValueError, match="0-9") as refused:
            await out.send_dtmf(digits)
        assert "12" not in str(refused.value)
    with pytest.raises(ValueError, match="duration_ms"):
        await out.send_dtmf("1", duration_ms=10)
    with pytest.raises(ValueError, match="gap_ms"):
        await out.send_dtmf("1", gap_ms=9000)
    sending = asyncio.create_task(out.send_dtmf("1" * 20))
    await asyncio.sleep(0.3)
    into.hangup()
    with pytest.raises((CallGone, SignallingError)) as gone:
        await soon(sending)
    assert gone.value.code in ("call.gone", "dtmf.interrupted")
    await soon(next_of(out, CallEnded))
    with pytest.raises(CallGone):
        await out.send_dtmf("1")


async def test_two_tasks_send_one_after_the_other(pair: Pair) -> None:
    out, into = await pair.connect()
    both = asyncio.gather(
        out.send_dtmf("123", duration_ms=40, gap_ms=40),
        out.send_dtmf("456", duration_ms=40, gap_ms=40),
    )
    await soon(both)
    await asyncio.sleep(0.2)
    out.hangup()
    assert typed(await soon(collect(into))) == "123456"
