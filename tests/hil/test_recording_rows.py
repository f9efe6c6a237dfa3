# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that fills up and a wall clock that is set back, in mid-call."""

from __future__ import annotations

import errno
import itertools
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import Dialog
from hil.peers.process import eventually
from hil.peers.script import ScriptEnd, Talker

NOTE = 500.0


class Call:
    """A call whose peer sends one note until it is ended, and notes what it gets."""

    def __init__(self, core: LocalCore, name: str) -> None:
        self.core = core
        self.rtp = ScriptEnd()
        self.sip = Datagrams(core.sip)
        self.dialog = Dialog(self.sip, name, rtp_port=self.rtp.port)
        self.number = core.call(self.dialog.call_id)
        self.recording = Path(core.wait_event("answered", id=self.number)["recording"])
        self.talker = Talker()
        self._orders: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        note = list(audio.tone(NOTE, 0.02))
        while not self._over.is_set():
            self.talker.at = 0.0
            if self._orders:
                packets = list(self.talker.press(self._orders.pop(), 0.1, gap=0.0))
            else:
                packets = list(self.talker.say(note))
            self.rtp.run(packets, self.dialog.remote_rtp)
            self.rtp.listen(0.02)

    def press(self, digit: str) -> int:
        """Presses a key; when the core says that it went down, ns."""
        before = len(self._keys())
        self._orders.append(digit)
        eventually("the key", lambda: len(self._keys()) > before, 5)
        return self._keys()[before]

    def _keys(self) -> list[int]:
        told = self.core.events("Dtmf")
        return [event["at_ns"] for event in told if event["id"] == self.number]

    def longest_gap(self) -> float:
        """Longest time between two packets that the core sent, s."""
        times = [packet.at for packet in self.rtp.rtp()]
        return max(after - before for before, after in itertools.pairwise(times))

    def missing(self) -> int:
        """Packets the core did not send between its first and its last."""
        sent = [packet.sequence for packet in self.rtp.rtp()]
        return sum(((b - a) & 0xFFFF) - 1 for a, b in itertools.pairwise(sent))

    def end(self) -> dict[str, object]:
        self._over.set()
        self._thread.join(5)
        self.dialog.end()
        ended = self.core.wait_event("CallEnded", id=self.number)
        self.rtp.close()
        self.sip.close()
        stats = ended["stats"]
        assert isinstance(stats, dict)
        return stats


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[LocalCore, Path]]:
    """A core that records onto a file system of 8 MB of its own, and where we see that."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(disk)]
    core = LocalCore(tmp_path, record=disk, prefix=prefix)
    try:
        seen = Path(f"/proc/{core.process.pid}/root{disk}")
        assert shutil.disk_usage(seen).total == 8 << 20, "the core does not see the small disk"
        yield core, seen
    finally:
        core.process.stop(5)


def fill(path: Path) -> None:
    """Writes until the disk is full."""
    with path.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(65536)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_b63_a_full_disk_costs_recordings_and_no_call(small_disk: tuple[LocalCore, Path]) -> None:
    core, disk = small_disk
    filler = disk / "journal"
    first = Call(core, "b63-first")
    time.sleep(1.0)
    fill(filler)
    eventually("the alarm", lambda: "error 28" in core.log(), 10)
    assert core.stats()["recording_errors"] >= 1
    # Another call comes while there is no room for a single byte.
    second = Call(core, "b63-second")
    time.sleep(1.5)
    filler.unlink()
    eventually("recording goes on", lambda: "is written again" in core.log(), 10)
    time.sleep(2.0)
    for call in (first, second):
        stats = call.end()
        assert stats["tx_errors"] == 0
        assert call.missing() == 0
        assert call.longest_gap() < 0.5, "the full disk was heard"
    third = Call(core, "b63-third")
    time.sleep(2.0)
    third.end()

    def kept(call: Call) -> tuple[float, list[int]]:
        """Length of the recording, and whether the caller is in each second of it: what is lost is zeros."""
        _, (left, _) = audio.read_wav(disk / call.recording.name)
        loud = [
            sum(sample != 0 for sample in left[at + 2000 : at + 6000]) > 2000
            for at in range(0, len(left) - 8000, 8000)
        ]
        return len(left) / audio.RATE, [int(there) for there in loud]

    length, here = kept(first)
    assert length > 5
    assert here[0] == 1
    assert here[-1] == 1, here
    assert 0 in here, "nothing was lost, so the disk was not full"
    assert kept(second)[1][-1] == 1
    length, here = kept(third)
    assert length > 1.5
    assert all(here), here


CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long behind(void)
{
    const char *mark = getenv("HIL_CLOCK_BACK");
    return mark && access(mark, F_OK) == 0 ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec -= behind();
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = (int)syscall(SYS_gettimeofday, now, zone);
    if (!failed && now) {
        now->tv_sec -= behind();
    }
    return failed;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
"""


def test_b65_a_wall_clock_set_back_an_hour_disturbs_no_call(tmp_path: Path) -> None:
    """By a library before libc's: only what asks for the wall clock is an hour behind."""
    source, library, mark = tmp_path / "clock.c", tmp_path / "clock.so", tmp_path / "back"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    core = LocalCore(
        tmp_path,
        record=tmp_path / "wav",
        media_timeout_s=2.0,
        env={"LD_PRELOAD": str(library), "HIL_CLOCK_BACK": str(mark)},
    )
    try:
        call = Call(core, "b65")
        time.sleep(1.0)
        first, before = call.press("1"), time.monotonic()
        with Datagrams(core.sip) as unacknowledged:
            # Retransmissions are under way while the clock goes back (RFC 3261 section 13.3.1.4).
            invite = unacknowledged.invite(user="answering.wait9000", call_id="b65-noack@127.0.0.1")
            answer = unacknowledged.answer_to(invite)
            assert answer is not None
            mark.touch()
            time.sleep(3.0)
            repeats = 0
            while (again := unacknowledged.receive(0)) is not None:
                repeats += status_of(again) == 200
            # After 0.5 s and after another second.
            assert 2 <= repeats <= 3, f"{repeats} repeats of the 200 in 3 s"
        second, after = call.press("2"), time.monotonic()
        assert (second - first) / 1e9 == pytest.approx(after - before, abs=0.5)
        later = Call(core, "b65-later")
        time.sleep(0.5)
        for each in (call, later):
            stats = each.end()
            assert each.missing() == 0
            assert each.longest_gap() < 0.5
            assert stats["rx_lost"] == 0
        assert not core.events("MediaTimeout")
        stamps = [
            int(found.group(1)) * 60 + int(found.group(2))
            for each in (call, later)
            if (found := re.search(r"T(\d\d)(\d\d)", each.recording.name))
        ]
        assert (stamps[0] - stamps[1]) % 1440 in range(58, 61), "the wall clock did not go back"
        _, (left, _) = audio.read_wav(call.recording)
        assert 4.0 < len(left) / audio.RATE < 9.0
    finally:
        core.process.stop(5)
