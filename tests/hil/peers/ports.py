# SPDX-License-Identifier: GPL-3.0-or-later
"""Free ports on loopback, outside the kernel's ephemeral range so that nothing takes them in between."""

from __future__ import annotations

import os
import random
import socket

_LOW, _HIGH = 10240, 32000
_random = random.Random(os.getpid())
# What was given last goes out again last: a test that still holds its ports binds them, but one that is about to
# must not lose them.
_given: dict[int, None] = {}


def _bindable(port: int, host: str) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def free_block(count: int, *, step: int = 1, host: str = "127.0.0.1") -> int:
    """First (even) port of `count` ports, `step` apart, free for UDP and TCP, and not given out lately."""
    for attempt in range(2000):
        if (
            attempt % 200 == 199
        ):  # too little is left in one piece: the older half may be asked for again
            for port in list(_given)[: len(_given) // 2]:
                del _given[port]
        base = _random.randrange(_LOW, _HIGH - count * step) & ~1
        block = range(base, base + count * step, step)
        if _given.keys().isdisjoint(block) and all(_bindable(port, host) for port in block):
            _given.update(dict.fromkeys(block))
            return base
    raise RuntimeError(f"no {count} free ports between {_LOW} and {_HIGH} on {host}")


def free_port(host: str = "127.0.0.1") -> int:
    """One free (even) port."""
    return free_block(1, host=host)


def udp_drops(port: int) -> int:
    """Datagrams the kernel dropped at the socket bound to `port` (its receive buffer was full)."""
    with open("/proc/net/udp", encoding="ascii") as lines:
        next(lines)
        for line in lines:
            field = line.split()
            if int(field[1].rpartition(":")[2], 16) == port:
                return int(field[12])
    return 0


def is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """True when nobody holds the port for UDP or listens on it for TCP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT is not a leak
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
