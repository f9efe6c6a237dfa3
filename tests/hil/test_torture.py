# SPDX-License-Identifier: GPL-3.0-or-later
"""RFC 4475 and RFC 5118 against the core, over UDP and TCP, and a thousand seeded mutations of each kind (B03, B21)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from hil.drivers.local import LocalCore
from hil.peers import broken
from hil.peers.datagrams import Datagrams
from hil.peers.torture import Message, Torturer, messages

# 127.77.0.1 is named, so that no limit of its own makes answers disappear.
GUARD = {"acl": ["127.77.0.0/16"]}
SEED = 20060501  # of RFC 4475
# Silence is told from slowness by an answer that came meanwhile: OPTIONS is asked after each.
WAIT_S, SILENCE_S = 5.0, 0.3
ALL = messages()


@pytest.fixture(scope="module")
def torturer_of() -> Iterator[Callable[[LocalCore], Torturer]]:
    made: list[Torturer] = []

    def of(core: LocalCore) -> Torturer:
        for old in made:
            old.__exit__(None, None, None)
        made[:] = [Torturer(core.sip)]
        return made[0]

    yield of
    for old in made:
        old.__exit__(None, None, None)


class Cores:
    """A core that has not yet seen the branch of a message: within 32 s PJSIP takes the second for the first again."""

    def __init__(self, start: Callable[..., LocalCore]) -> None:
        self._start = start
        self._seen: list[tuple[LocalCore, set[bytes]]] = []

    def fresh_for(self, message: Message) -> LocalCore:
        for core, seen in self._seen:
            if message.branch not in seen:
                seen.add(message.branch)
                return core
        self._seen.append((self._start(guard=GUARD), {message.branch}))
        return self._seen[-1][0]


@pytest.fixture(scope="module")
def over_udp(start_core: Callable[..., LocalCore]) -> Cores:
    return Cores(start_core)


@pytest.fixture(scope="module")
def over_ipv6(start_core: Callable[..., LocalCore]) -> Cores:
    return Cores(lambda **options: start_core(bind="::1", **options))


@pytest.fixture(scope="module")
def over_tcp(start_core: Callable[..., LocalCore]) -> Cores:
    return Cores(start_core)


@pytest.mark.parametrize("message", ALL, ids=lambda m: m.name)
def test_b21_over_udp(
    over_udp: Cores, torturer_of: Callable[[LocalCore], Torturer], message: Message
) -> None:
    core = over_udp.fresh_for(message)
    before = core.stats()
    got = torturer_of(core).datagram(message, WAIT_S if message.status else SILENCE_S)
    assert got == message.status, message.why
    after_it(core, before, message)


@pytest.mark.parametrize("message", ALL, ids=lambda m: m.name)
def test_b21_over_tcp(
    over_tcp: Cores, torturer_of: Callable[[LocalCore], Torturer], message: Message
) -> None:
    core = over_tcp.fresh_for(message)
    before = core.stats()
    got = torturer_of(core).stream(message, WAIT_S if message.stream_status else SILENCE_S)
    assert got == message.stream_status, message.why
    after_it(core, before, message)


@pytest.mark.parametrize(
    "message", [m for m in ALL if m.name.startswith("rfc5118")], ids=lambda m: m.name
)
def test_b21_over_ipv6(
    over_ipv6: Cores, torturer_of: Callable[[LocalCore], Torturer], message: Message
) -> None:
    core = over_ipv6.fresh_for(message)
    got = torturer_of(core).datagram(message, WAIT_S)
    assert got == message.ipv6_status, message.why
    assert core.alive(), core.process.tail()


def after_it(core: LocalCore, before: dict[str, int], message: Message) -> None:
    """It lives, answers others, and counted what it refused without the application."""
    assert core.alive(), f"dead after {message.name}\n{core.process.tail()}"
    with Datagrams(core.sip) as other:
        assert other.alive() == 200
    if message.status in (400, 405, 406, 415, 416, 420, 488, 501, 505) and message.stream_status:
        # The counters are written when a round of the SIP thread is over, which may be after its answers.
        counted, end = 0, time.monotonic() + WAIT_S
        while counted == 0 and time.monotonic() < end:
            after = core.stats()
            counted = sum(after[k] - before[k] for k in ("sip_malformed", "sip_rejected"))
        assert counted > 0, f"{message.name} was counted nowhere"


@pytest.mark.parametrize("message", ALL, ids=lambda m: m.name)
def test_b21_mutations(
    over_udp: Cores, torturer_of: Callable[[LocalCore], Torturer], message: Message
) -> None:
    """A thousand in all, seeded: nothing dies, others are served, nothing is left of them."""
    core = over_udp.fresh_for(message)
    with Datagrams(core.sip, host="127.77.0.2") as attacker, Datagrams(core.sip) as other:
        count = -(-1000 // len(ALL))
        for mutation in broken.mutated(message.data, SEED + len(message.data), count):
            if len(mutation) < 65000:
                attacker.send(mutation)
        assert other.alive() == 200
        assert core.alive(), core.process.tail()


@pytest.mark.parametrize("base", ["4294967296", "NUL in fmtp"])
def test_b03_a_thousand_mutations_of_its_bodies(core: LocalCore, base: str) -> None:
    """Format 4294967296 and a NUL byte in a=fmtp (B03), each mutated; OPTIONS is answered all along."""
    with Datagrams(core.sip) as attacker:
        if base == "NUL in fmtp":
            (invite,) = [data for name, data in broken.offers(attacker) if name == base]
        else:
            invite = attacker.invite(formats=base, user="reject486")
        before = core.stats()
        for number, mutation in enumerate(broken.mutated(invite, SEED, 1000), 1):
            attacker.send(mutation)
            if number % 100 == 0:
                attacker.drain()
                assert attacker.alive() == 200, number
        after = core.stats()
        assert core.alive(), core.process.tail()
        assert after["sip_rejected"] > before["sip_rejected"]
        assert after["sip_malformed"] > before["sip_malformed"]
    assert os.path.exists(f"/proc/{core.process.pid}")
