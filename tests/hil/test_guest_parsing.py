# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tests of the appliance read /proc: on lines as a kernel prints them."""

from __future__ import annotations

import pytest

from hil.qemu.guest import Guest, cores, threads

REST = (
    "S 1 5 5 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 18446744073709551615"
    " 0 0 0 0 0 0 0 0 0 0 0 0 17 {core} {priority} {policy} 0 0 0"
)


def stat(
    tid: int, name: str, *, flags: int = 0, core: int = 0, priority: int = 0, policy: int = 0
) -> str:
    rest = REST.format(flags=flags, core=core, priority=priority, policy=policy)
    return f"{tid} ({name}) {rest}"


def allowed(pid: int, tid: int, text: str) -> str:
    return f"/proc/{pid}/task/{tid}/status:Cpus_allowed_list:\t{text}"


def test_threads_are_read_with_any_name() -> None:
    stats = [
        stat(7, "vc-media-0", core=3, priority=60, policy=1),
        stat(8, "odd) (name", core=1),
        stat(9, "kworker/0:1", flags=0x0420_8060),
    ]
    places = [allowed(7, 7, "3"), allowed(7, 8, "0-1,5"), allowed(9, 9, "0-7")]
    media, odd, kernel = threads(stats, places)
    assert (media.pid, media.policy, media.priority, media.last_core) == (7, 1, 60, 3)
    assert media.media
    assert media.allowed == {3}
    assert (odd.pid, odd.name, odd.allowed, odd.kernel) == (
        7,
        "odd) (name",
        cores("0-1,5"),
        False,
    )
    assert kernel.kernel
    assert not kernel.media


def test_a_thread_that_ended_between_is_left_out() -> None:
    assert threads([stat(7, "gone"), stat(8, "here")], [allowed(8, 8, "0")])[0].tid == 8
    assert threads([stat(8, "here")], [allowed(8, 8, "0"), allowed(7, 7, "0")])[0].tid == 8


def test_lists_of_cores() -> None:
    assert cores("0-2,5\n") == {0, 1, 2, 5}
    assert cores("") == frozenset()
    assert cores("1") == {1}


class Canned:
    def run(self, command: str, *, timeout: float) -> tuple[list[str], list[str], int]:
        return (["out"], ["err"], 3) if command == "false" else ([command], [], 0)


def test_a_failing_command_is_told_with_what_it_said() -> None:
    guest = Guest(Canned())
    assert guest.run("fine") == "fine"
    assert guest.say("false") == "out"
    assert guest.fails("false") == "out\nerr"
    with pytest.raises(AssertionError, match="`false` ended with 3 on the box\nout\nerr"):
        guest.run("false")
