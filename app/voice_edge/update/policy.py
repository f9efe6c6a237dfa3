# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions without any input or output: which release, whether now is the time, when to try again."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from .index import Index, Release
from .versions import key

FIRST_WAIT_S = 300.0
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
DAY_S = 86_400
ALARM_S = 60 * DAY_S
"""How long before a trusted certificate ends the box says so."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``why`` tells an operator what was decided, also when there is no release to take."""

    release: Release | None
    why: str


def choose(
    index: Index,
    *,
    compatible: str,
    running: str,
    machine_id: str,
    pin: str | None = None,
    failed: Collection[str] = (),
) -> Choice:
    """The newest release this box may take. ``failed`` are versions that were tried and did not work."""
    ours = [r for r in index.releases if r.compatible == compatible]
    if not ours:
        return Choice(None, f"the channel has no release for {compatible}")
    newer = sorted((r for r in ours if key(r.version) > key(running)), key=lambda r: key(r.version))
    if pin is not None:
        if key(pin) <= key(running):
            return Choice(None, f"pinned to {pin}, and {running} runs")
        newer = [r for r in newer if r.version == pin]
        if not newer:
            return Choice(None, f"pinned to {pin}, which the channel does not have")
    why = f"{running} is the newest"
    for release in reversed(newer):
        if release.version in failed:
            why = f"{release.version} was tried and did not work; see voice-edge update status"
        elif key(release.update_from) > key(running):
            why = f"{release.version} is installed from {release.update_from} or newer only"
        elif pin is None and bucket(machine_id, release.version) >= release.share:
            why = f"{release.version} is given to {release.share} % of the boxes so far, not to this one"
        else:
            return Choice(release, f"{release.version} is newer than {running}")
    return Choice(None, why)


def bucket(machine_id: str, version: str) -> int:
    """From 0 to 99, evenly over boxes; another for each release, so that not the same boxes are always first."""
    digest = hashlib.sha256(f"{machine_id}:{version}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 100


def spread(machine_id: str, span_s: float) -> float:
    """Seconds from 0 to ``span_s`` that are this box's own: a fleet does not ask all at once."""
    digest = hashlib.sha256(f"{machine_id}:when".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * span_s


def wait_s(tries: int, most_s: float) -> float:
    """How long after the ``tries``-th failure in a row."""
    return float(min(most_s, FIRST_WAIT_S * 2 ** min(max(tries, 1) - 1, 20)))


@dataclass(frozen=True, slots=True)
class Window:
    """Minutes of the day in the box's own time; ``begin`` after ``end`` goes over midnight, equal is always."""

    begin: int
    end: int

    def open_at(self, now: float) -> bool:
        """``now`` is Unix time."""
        local = time.localtime(now)
        minute = local.tm_hour * 60 + local.tm_min
        if self.begin == self.end:
            return True
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


def window(text: str) -> Window:
    """From ``02:00-04:00``. Raises ValueError."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time of the day such as 02:00-04:00")
    hour, minute, to_hour, to_minute = map(int, found.groups())
    return Window(hour * 60 + minute, to_hour * 60 + to_minute)


def clock_fault(now: float, built: float) -> str:
    """What is wrong with a clock that is earlier than the running release; empty when nothing is."""
    if now >= built - DAY_S:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    return f"ota.clock: the clock says {day}, before this release was made. Check [time] servers and the network"


def expiry_alarm(now: float, ends: Collection[tuple[str, float]]) -> list[str]:
    """Notices of certificates (name, end) that this box trusts releases by and that end within 60 days, or have."""
    out = []
    for name, end in sorted(ends, key=lambda item: item[1]):
        if end - now > ALARM_S:
            continue
        day = time.strftime("%Y-%m-%d", time.gmtime(end))
        what = f"ends on {day}" if end > now else f"ended on {day}"
        out.append(
            f"ota.authority-expires: the certificate {name}, which releases are trusted by, {what}. "
            "Install a release that brings the next one before then (docs/updates.md, Keys)"
        )
    return out
