# SPDX-License-Identifier: GPL-3.0-or-later
"""What the process needs from the system: descriptors, quiet math libraries, word to systemd."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import socket

_log = logging.getLogger(__name__)

WANTED_DESCRIPTORS = 65_536  # two sockets a call, and one for each request under way


def one_math_thread() -> None:
    """Before any such library loads: pools of theirs would fight the media thread for cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def raise_descriptor_limit() -> int:
    """Raise the soft limit to 65,536, or to the hard limit with a note. Returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = WANTED_DESCRIPTORS if hard == unlimited else min(WANTED_DESCRIPTORS, hard)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft != unlimited and soft < WANTED_DESCRIPTORS:
        _log.warning(
            "descriptor limit is %d, wanted %d: set LimitNOFILE=%d in the unit",
            soft,
            WANTED_DESCRIPTORS,
            WANTED_DESCRIPTORS,
        )
    return soft


def freeze_heap() -> None:
    """After warm-up: what is alive now stays, the collector need not look at it again."""
    gc.collect()
    gc.freeze()


def notify(state: str) -> None:
    """Tell systemd (sd_notify(3)); nothing happens without it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("systemd cannot be told %s: %s", state, error.strerror)


async def heartbeat() -> None:
    """Tell systemd's watchdog that the loop turns, twice as often as asked (sd_watchdog_enabled(3))."""
    asked = os.environ.get("WATCHDOG_USEC", "")
    if not asked.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(int(asked) / 2e6)
