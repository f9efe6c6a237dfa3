# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines that stop under calls, start anew again and again, and an event loop that stands still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.engines import Engines
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import tag
from hil.peers.many import ManyCalls
from hil.peers.ports import is_free
from hil.peers.process import eventually

SILENT_S = 0.6
"""What a loaded machine may keep a packet from us: far less than any of the disturbances here lasts."""


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    host = Engines(tmp_path)
    try:
        yield host
    finally:
        status = host.stop()
        assert status == 0, host.process.tail()
        assert "panicked" not in host.process.stderr()


@pytest.mark.slow
def test_an_engine_stops_under_50_calls_and_the_others_calls_have_no_gap(engines: Engines) -> None:
    going, staying = engines.start("going"), engines.start("staying")
    with ManyCalls(going, 50, "going") as leavers, ManyCalls(staying, 10, "staying") as others:
        time.sleep(1.0)
        ports = [dialog.remote_rtp[1] for dialog in leavers.dialogs]
        before = engines.ask("stats", name="staying")
        began = time.monotonic()
        others.forget()
        engines.process.write('{"op": "stop", "name": "going"}')
        assert leavers.byes() == 50
        eventually("the engine's stop", lambda: engines.events("stop"), 5)
        leavers.quiet()
        assert engines.events("stop")[0]["seconds"] < 3
        time.sleep(1.5)
        assert not others.gaps(seconds=time.monotonic() - began, silent_s=SILENT_S)
        after = engines.ask("stats", name="staying")
        assert after["rx_lost"] == before["rx_lost"] == 0
        assert after["skipped_ticks"] == before["skipped_ticks"]
        assert all(is_free(port) for port in ports), "ports of ended calls are still bound"
        # A new engine serves at once, beside the old one.
        with ManyCalls(engines.start("again"), 5, "again") as fresh:
            time.sleep(0.5)
            assert all(heard.packets > 10 for heard in fresh.heard)
            fresh.hang_up()
        others.hang_up()


@pytest.mark.slow
def test_starting_and_stopping_under_calls_leaves_nothing(engines: Engines) -> None:
    def once(number: int) -> dict[str, int]:
        remote = engines.start("loop", max_calls=10, media_cores=[0, 1])
        with ManyCalls(remote, 6, f"loop{number}-") as calls:
            time.sleep(0.4)
            engines.process.write('{"op": "stop", "name": "loop"}')
            assert calls.byes() == 6
        eventually("the stop", lambda: len(engines.events("stop")) == number + 1, 5)
        held = engines.ask("census")
        return {name: int(held[name]) for name in ("descriptors", "threads", "memory_kib")}

    first = [once(number) for number in range(4)][-1]
    last = [once(number) for number in range(4, 14)][-1]
    assert last["descriptors"] == first["descriptors"]
    assert last["threads"] == first["threads"]
    # Ten engines more: one that leaked its rings alone would be a megabyte each.
    assert last["memory_kib"] < first["memory_kib"] + 8192, (first, last)


@pytest.mark.slow
def test_an_event_loop_that_stands_still_for_3_s_leaves_no_gap(engines: Engines) -> None:
    remote = engines.start("frozen")
    with ManyCalls(remote, 20, "frozen") as calls:
        time.sleep(1.0)
        before = engines.ask("stats", name="frozen")
        calls.forget()
        began = time.monotonic()
        engines.process.write('{"op": "freeze", "seconds": 3.0}')
        time.sleep(0.3)
        # A call that comes meanwhile is answered when the loop goes on.
        with Datagrams(remote) as late:
            answer = late.answer_to(late.invite(call_id="late"), timeout_s=10)
            assert answer is not None
            assert status_of(answer) == 200
            frozen_s = time.monotonic() - began
            for method, cseq in (("ACK", 1), ("BYE", 2)):
                late.send(late.request(method, call_id="late", to_tag=tag(answer, "To"), cseq=cseq))
        assert 2.8 < frozen_s < 8
        gaps = calls.gaps(seconds=time.monotonic() - began, silent_s=SILENT_S)
        assert not gaps, "\n".join(gaps)
        after = engines.ask("stats", name="frozen")
        # The way in: what was sent meanwhile was taken, none of it missing or late.
        taken = after["rx_packets"] - before["rx_packets"]
        assert taken >= 20 * 3 * 50, taken
        assert (after["rx_lost"], after["rx_malformed"]) == (0, 0)
        assert after["playout_underruns"] == before["playout_underruns"] == 0
        # Nothing was dropped for it either: what happened meanwhile is fetched afterwards.
        assert after["events_dropped"] == 0
        eventually("the watchdog's report", lambda: _over(engines), 5)
        told = engines.events("stall")
        assert {stall["thread"] for stall in told} == {"application"}, told
        assert 2.0 < told[-1]["stuck_s"] < frozen_s + 0.5, told
        calls.hang_up()
    with Datagrams(remote) as caller:
        assert caller.alive() == 200


def _over(engines: Engines) -> list[dict[str, object]]:
    return [stall for stall in engines.events("stall") if stall["over"]]
