# SPDX-License-Identifier: GPL-3.0-or-later
"""A network that loses, delays, reorders and doubles UDP packets, from a seed: netem is not everywhere."""

from __future__ import annotations

import heapq
import itertools
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field

from .ports import free_block

Address = tuple[str, int]


@dataclass(frozen=True)
class Impairment:
    """What happens to a packet, each direction for itself. Parts are 0 to 1, times milliseconds."""

    loss: float = 0.0
    burst: float = 1.0  # mean length of a run of lost packets
    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # uniform, on top of the delay
    reorder: float = 0.0  # part that is held back by 30 ms more, past its follower
    duplicate: float = 0.0


CLEAN = Impairment()
LOSSY = Impairment(loss=0.02, delay_ms=20)
BURSTY = Impairment(loss=0.03, burst=3, delay_ms=30, jitter_ms=10)
JITTERY = Impairment(delay_ms=20, jitter_ms=40)
WIFI = Impairment(loss=0.01, delay_ms=10, jitter_ms=30, reorder=0.01, duplicate=0.005)
SHUFFLED = Impairment(delay_ms=10, reorder=0.05, duplicate=0.03)

PRESETS = {
    "clean": CLEAN,
    "lossy": LOSSY,
    "bursty": BURSTY,
    "jittery": JITTERY,
    "wifi": WIFI,
    "shuffled": SHUFFLED,
}


@dataclass
class Passed:
    """What was done to one direction."""

    came: int = 0
    lost: int = 0
    doubled: int = 0
    held: int = 0


@dataclass
class _Fate:
    """Draws the fate of one direction's packets; as many draws a packet whatever comes out."""

    rule: Impairment
    chance: random.Random
    passed: Passed = field(default_factory=Passed)
    losing: bool = False

    def delays(self) -> list[float]:
        """Seconds until each copy is to leave: none when lost, two when doubled."""
        rule, passed = self.rule, self.passed
        lose, jitter, hold, double = (self.chance.random() for _ in range(4))
        passed.came += 1
        if self.losing:
            self.losing = lose < 1 - 1 / rule.burst
        else:
            # entering a run of mean length `burst` with this chance loses `loss` of all packets
            self.losing = lose < rule.loss / (rule.burst * (1 - rule.loss) + rule.loss)
        if self.losing:
            passed.lost += 1
            return []
        delay = rule.delay_ms + jitter * rule.jitter_ms
        if hold < rule.reorder:
            passed.held += 1
            delay += 30
        copies = 1
        if double < rule.duplicate:
            passed.doubled += 1
            copies = 2
        return [delay / 1000] * copies


class Proxy:
    """Sits between two RTP ends. The near end sends to `near`, the far end is told of `far`.

    Names nothing of the packets: whatever comes on one side leaves on the other.
    """

    def __init__(self, rule: Impairment, seed: int, *, near_end: Address, host: str = "127.0.0.1"):
        port = free_block(4, host=host)
        self.near: Address = (host, port)
        self.far: Address = (host, port + 2)
        self._near_end = near_end
        self._far_end: Address | None = None
        chance = random.Random(seed)
        self._to_far = _Fate(rule, random.Random(chance.random()))
        self._to_near = _Fate(rule, random.Random(chance.random()))
        self._sockets = [self._bind(self.near), self._bind(self.far)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="impairment", daemon=True)
        self._thread.start()

    @staticmethod
    def _bind(address: Address) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind(address)
        bound.setblocking(False)
        return bound

    def set_far_end(self, address: Address) -> None:
        """Where what comes from the near end goes to."""
        self._far_end = address

    @property
    def to_far(self) -> Passed:
        return self._to_far.passed

    @property
    def to_near(self) -> Passed:
        return self._to_near.passed

    def _run(self) -> None:
        near, far = self._sockets
        queue: list[tuple[float, int, socket.socket, bytes, Address]] = []
        order = itertools.count()
        with selectors.DefaultSelector() as selector:
            for one in self._sockets:
                selector.register(one, selectors.EVENT_READ)
            while not self._stop.is_set():
                wait = 0.05 if not queue else max(0.0, min(0.05, queue[0][0] - time.monotonic()))
                for key, _ in selector.select(wait):
                    from_near = key.fileobj is near
                    try:
                        data, _ = (near if from_near else far).recvfrom(65535)
                    except (BlockingIOError, ConnectionError):
                        continue
                    target = self._far_end if from_near else self._near_end
                    if target is None:
                        continue
                    fate = self._to_far if from_near else self._to_near
                    leave = far if from_near else near
                    now = time.monotonic()
                    for delay in fate.delays():
                        heapq.heappush(queue, (now + delay, next(order), leave, data, target))
                while queue and queue[0][0] <= time.monotonic():
                    _, _, leave, data, target = heapq.heappop(queue)
                    try:
                        leave.sendto(data, target)
                    except OSError:
                        continue

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2)
        for one in self._sockets:
            one.close()
