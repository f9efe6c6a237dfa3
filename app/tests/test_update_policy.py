# SPDX-License-Identifier: GPL-3.0-or-later
"""What a box decides about updates: pure, on times of the test's own."""

from __future__ import annotations

import calendar
import json
import random
from pathlib import Path
from typing import Any

import pytest

from voice_edge.update import policy, state
from voice_edge.update.index import BadIndexError, Index, parse
from voice_edge.update.refusals import explain
from voice_edge.update.state import State
from voice_edge.update.versions import key

from .update_server import COMPATIBLE, entry, index

URL = "https://updates.example.com/voice/stable.json"


def of(*entries: dict[str, Any]) -> Index:
    return parse(index(*entries), URL)


def choose(found: Index, **more: Any) -> policy.Choice:
    given: dict[str, Any] = {"compatible": COMPATIBLE, "running": "1.0.0", "machine_id": "0" * 32}
    return policy.choose(found, **{**given, **more})


def test_versions_sort_as_the_standard_says() -> None:
    # Semantic Versioning 2.0.0, section 11.
    order = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
    order += "1.0.0-rc.1 1.0.0 1.0.1 1.10.0"
    mixed = order.split()
    random.Random(1).shuffle(mixed)
    assert sorted(mixed, key=key) == order.split()
    with pytest.raises(ValueError, match="not a version"):
        key("1.0")


def test_the_newest_that_fits_is_taken() -> None:
    found = of(entry("1.2.0"), entry("1.10.0"), entry("9.0.0", compatible="other"), entry("0.9.0"))
    chosen = choose(found)
    assert chosen.release is not None
    assert chosen.release.version == "1.10.0"
    assert chosen.release.url == "https://updates.example.com/voice/1.10.0.raucb"


@pytest.mark.parametrize(
    ("entries", "more", "why"),
    [
        ([entry("1.0.0"), entry("0.9.0")], {}, "1.0.0 is the newest"),
        ([entry("2.0.0", compatible="x")], {}, f"no release for {COMPATIBLE}"),
        ([entry("2.0.0")], {"failed": ["2.0.0"]}, "tried and did not work"),
        ([entry("2.0.0", update_from="1.5.0")], {}, "from 1.5.0 or newer only"),
        ([entry("2.0.0", share=0)], {}, "given to 0 % of the boxes"),
        ([entry("2.0.0")], {"pin": "1.5.0"}, "which the channel does not have"),
        ([entry("2.0.0")], {"pin": "1.0.0"}, "pinned to 1.0.0, and 1.0.0 runs"),
    ],
)
def test_none_is_taken_and_why(
    entries: list[dict[str, Any]], more: dict[str, Any], why: str
) -> None:
    chosen = choose(of(*entries), **more)
    assert chosen.release is None
    assert why in chosen.why


def test_a_failed_release_leaves_the_one_before() -> None:
    chosen = choose(of(entry("1.1.0"), entry("1.2.0")), failed=["1.2.0"])
    assert chosen.release is not None
    assert chosen.release.version == "1.1.0"


def test_a_pin_goes_before_the_share() -> None:
    chosen = choose(of(entry("1.1.0", share=0), entry("1.2.0")), pin="1.1.0")
    assert chosen.release is not None
    assert chosen.release.version == "1.1.0"


def test_a_share_of_the_fleet_is_that_share() -> None:
    ids = [f"{n:032x}" for n in range(4_000)]
    taken = [i for i in ids if policy.bucket(i, "1.1.0") < 25]
    assert 0.22 < len(taken) / len(ids) < 0.28
    # More of it has those who had it already, and another release starts with others.
    wider = [i for i in ids if policy.bucket(i, "1.1.0") < 50]
    assert set(taken) < set(wider)
    assert set(taken) != {i for i in ids if policy.bucket(i, "1.2.0") < 25}


def at(text: str) -> float:
    hour, minute = map(int, text.split(":"))
    return calendar.timegm((2026, 3, 4, hour, minute, 0))


@pytest.mark.parametrize(
    ("window", "time", "is_open"),
    [
        ("02:00-04:00", "01:59", False),
        ("02:00-04:00", "02:00", True),
        ("02:00-04:00", "03:59", True),
        ("02:00-04:00", "04:00", False),
        ("23:30-01:00", "23:29", False),
        ("23:30-01:00", "23:30", True),
        ("23:30-01:00", "00:59", True),
        ("23:30-01:00", "01:00", False),
        ("00:00-00:00", "13:00", True),
    ],
)
def test_the_window(window: str, time: str, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import time as clock

    monkeypatch.setenv("TZ", "UTC")
    clock.tzset()
    assert policy.window(window).open_at(at(time)) == is_open
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.parametrize("text", ["", "2:00-4:00", "02:00", "24:00-01:00", "02:00-03:60"])
def test_no_window(text: str) -> None:
    with pytest.raises(ValueError, match="02:00-04:00"):
        policy.window(text)


def test_waits_grow_to_their_limit() -> None:
    waits = [policy.wait_s(n, 21_600) for n in range(1, 12)]
    assert waits[:4] == [300, 600, 1_200, 2_400]
    assert waits[-1] == 21_600
    assert policy.wait_s(10_000, 21_600) == 21_600


def test_a_fleet_does_not_ask_all_at_once() -> None:
    asked = sorted(policy.spread(f"{n:032x}", 3_600) for n in range(100))
    assert asked[0] < 360
    assert asked[-1] > 3_240


def test_a_clock_before_the_release_is_told() -> None:
    built = 1_767_225_600.0
    assert policy.clock_fault(0, built).startswith("ota.clock: the clock says 1970-01-01")
    assert policy.clock_fault(built, built) == ""


def test_the_alarm_rings_sixty_days_before() -> None:
    now, day = 1_767_225_600.0, 86_400
    ends = [("far", now + 61 * day), ("near", now + 59 * day), ("gone", now - day)]
    alarms = policy.expiry_alarm(now, ends)
    assert len(alarms) == 2
    assert "certificate gone, which releases are trusted by, ended on 2025-12-31" in alarms[0]
    assert "certificate near, which releases are trusted by, ends on 2026-03-01" in alarms[1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not of format 1"),
        (b'{"format": 2}', "not of format 1"),
        (b'{"format": 1}', "releases is not a list"),
        (b" " * 300_000, "more than"),
        (index(entry("1.0")), r"releases\[0\]\.version"),
        (index(entry(sha256="A" * 64)), r"releases\[0\]\.sha256"),
        (index(entry(size=0)), r"releases\[0\]\.size"),
        (index(entry(size=True)), r"releases\[0\]\.size"),
        (index(entry(size=1 << 40)), r"releases\[0\]\.size"),
        (index(entry(share=101)), r"releases\[0\]\.share"),
        (index(entry(url="http://example.com/x")), r"releases\[0\]\.url leaves https"),
        (index(entry(url="file:///etc/passwd")), r"releases\[0\]\.url leaves https"),
        (index(entry(notes="a\nb")), r"releases\[0\]\.notes"),
        (
            json.dumps({"format": 1, "releases": [7], "channel": "x", "serial": 1}).encode(),
            "object",
        ),
    ],
)
def test_an_index_with_a_mistake_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(BadIndexError, match=says):
        parse(content, URL)


def test_an_index_of_a_stick_stays_on_it() -> None:
    with pytest.raises(BadIndexError, match="leaves the stick"):
        parse(index(entry(url="../../../data/x.raucb")), "file:///run/stick/u/stable.json")


def test_any_bytes_are_an_index_or_a_mistake() -> None:
    seed = random.Random(8)
    good = index(entry())
    for _ in range(2_000):
        data = bytearray(good)
        for _ in range(seed.randrange(1, 4)):
            data[seed.randrange(len(data))] = seed.randrange(256)
        try:
            parse(bytes(data), URL)
        except BadIndexError:
            pass


def test_state_is_kept_and_a_damaged_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state.load(path) == State()
    kept = State(phase=state.WRITTEN, version="1.1.0", at=7).failed("1.1.0", 8.5, "why")
    state.save(path, kept)
    assert state.load(path) == kept
    for damaged in ("", "{", "[]", '{"phase": "flying"}', '{"tries": "1"}', '{"failures": [1]}'):
        path.write_text(damaged)
        assert state.load(path) == State()
    path.write_text('{"phase": "written", "of_a_newer_release": 1}')
    assert state.load(path).phase == state.WRITTEN


def test_few_failures_are_kept() -> None:
    kept = State()
    for n in range(20):
        kept = kept.failed(f"1.{n}.0", n, "why")
    assert [f.version for f in kept.failures] == [f"1.{n}.0" for n in range(12, 20)]


def test_what_rauc_says_that_nobody_foresaw_is_shown() -> None:
    refusal = explain("LastError: the moon is full\n")
    assert refusal.code == "ota.failed"
    assert "the moon is full" in refusal.what
