# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten calls, of which some change all the time: re-INVITEs every 2 s, hold, codec switches, take-overs by Replaces,
transfers, calls that come and go. The others must not notice: checked by what their far ends received.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.load import may_real_time
from hil.peers import audio
from hil.peers.datagrams import status_of
from hil.peers.phone import Phone, PhoneCall
from hil.peers.rtp import Packet, RtpEnd

pytestmark = pytest.mark.slow
QUIET, RESTLESS, TAKEN = 5, 3, 2
LASTS_S = 12.0
EVERY_S = 2.0
SEED = 7


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    """With the priority that the service gives it, where this machine allows it."""
    return start_core(media_priority=50 if may_real_time() else None)


@pytest.fixture(scope="module")
def control(start_core: Callable[..., LocalCore]) -> LocalCore:
    """Another process whose one call nobody disturbs: a gap there is the machine's."""
    return start_core(media_priority=50 if may_real_time() else None)


@pytest.fixture
def phones(core: LocalCore, control: LocalCore, caller_melody: list[int]) -> Iterator[list[Phone]]:
    """Three at the core, and the last one at the control."""
    telephones = [Phone(core.sip, play=caller_melody) for _ in range(3)]
    telephones.append(Phone(control.sip, play=caller_melody))
    yield telephones
    for telephone in telephones:
        telephone.close()


def connect(core: LocalCore, phone: Phone) -> PhoneCall:
    call = phone.new("answer")
    assert status_of(call.call()) == 200
    core.wait_event("answered", id=core.call(call.call_id))
    return call


class Disturber(threading.Thread):
    """Runs `step` every EVERY_S until told to stop; what it raises is kept."""

    def __init__(self, step: Callable[[], None], first_s: float) -> None:
        super().__init__(daemon=True)
        self._step = step
        self._next = time.monotonic() + first_s
        self.stopping = threading.Event()
        self.steps = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.wait(max(0.0, self._next - time.monotonic())):
                self._step()
                self.steps += 1
                self._next += EVERY_S
        except BaseException as error:
            self.error = error


def stream(rtp: RtpEnd, since: float, until: float) -> list[Packet]:
    return [packet for packet in rtp.since(since) if packet.at < until]


def assert_unbroken(rtp: RtpEnd, packets: list[Packet], lasted_s: float) -> None:
    """One SSRC, no packet missing or twice, RTP time that goes on by 20 ms a packet, the melody in its order."""
    assert len({packet.ssrc for packet in packets}) == 1
    for before, after in itertools.pairwise(packets):
        steps = after.sequence - before.sequence & 0xFFFF
        assert steps == 1, f"{steps - 1} packets missing after {before.sequence}"
        assert after.timestamp - before.timestamp & 0xFFFFFFFF == 160, (before, after)
    # The clock of the core ran through: as many packets as the time holds, but for those on their way.
    assert len(packets) == pytest.approx(lasted_s * 50, abs=15)
    run = audio.heard(rtp.samples(packets), CORE_NOTES)
    assert len(run) >= lasted_s / 0.5 - 2, run
    assert audio.in_order(run, CORE_NOTES), run


def test_reinvites_every_2_s_and_replaces_leave_the_other_calls_without_a_gap(
    core: LocalCore, control: LocalCore, phones: list[Phone]
) -> None:
    watched = connect(control, phones[-1])
    for seed in (SEED, SEED + 1, SEED + 2):
        began = time.monotonic()
        try:
            disturb(core, phones, seed)
        except AssertionError:
            # Both processes at once: not run by the machine. That run proves nothing.
            if not is_broken(watched.rtp.since(began + 0.2)):
                raise
            for call in [c for phone in phones[:-1] for c in phone.calls.values()]:
                if call.remote_tag and not call.ended.is_set():
                    call.bye()
        else:
            break
    else:
        pytest.fail("the machine ran neither of two processes in time, three times")
    watched.bye()


def is_broken(packets: list[Packet]) -> bool:
    return any(
        after.timestamp - before.timestamp & 0xFFFFFFFF != 160
        for before, after in itertools.pairwise(packets)
    )


def disturb(core: LocalCore, phones: list[Phone], seed: int) -> None:
    chance = random.Random(seed)
    quiet_phone, restless_phone, taking_phone, _ = phones
    quiet = [connect(core, quiet_phone) for _ in range(QUIET)]
    restless = [connect(core, restless_phone) for _ in range(RESTLESS)]
    taken = [connect(core, taking_phone) for _ in range(TAKEN)]
    numbers = {call.call_id: core.call(call.call_id) for call in quiet}

    def change(call: PhoneCall) -> Callable[[], None]:
        kinds = itertools.cycle(chance.sample(["sendrecv", "hold", "codec", "plain"], 4))

        def step() -> None:
            kind = next(kinds)
            if kind == "hold":
                assert status_of(call.reinvite("sendonly")) == 200
                assert status_of(call.reinvite()) == 200
            elif kind == "codec":
                call.rtp.payload_type = audio.MU_LAW
                assert status_of(call.reinvite(formats="0")) == 200
                call.rtp.payload_type = audio.A_LAW
                assert status_of(call.reinvite(formats="8")) == 200
            else:
                assert status_of(call.reinvite()) == 200

        return step

    def take(place: int) -> Callable[[], None]:
        def step() -> None:
            old = taken[place]
            new = taking_phone.new("answer")
            replaces = f"Replaces: {old.call_id};to-tag={old.remote_tag};from-tag={old.local_tag}"
            assert status_of(new.call(replaces)) == 200
            assert old.ended.wait(5), "the call that was taken over got no BYE"
            taken[place] = new

        return step

    def come_and_go() -> None:
        call = taking_phone.new("answer")
        assert status_of(call.call()) == 200
        time.sleep(0.3)
        call.bye()

    began = time.monotonic()
    steps = [*map(change, restless), *map(take, range(TAKEN)), come_and_go]
    disturbers = [Disturber(step, chance.uniform(0.2, EVERY_S)) for step in steps]
    for disturber in disturbers:
        disturber.start()
    time.sleep(LASTS_S)
    ended = time.monotonic()
    for disturber in disturbers:
        disturber.stopping.set()
    for disturber in disturbers:
        disturber.join(15)
        assert disturber.error is None, disturber.error
        assert disturber.steps >= 4, "the disturbance was too small to prove anything"

    for call in quiet:
        assert_unbroken(call.rtp, stream(call.rtp, began + 0.2, ended), ended - began - 0.2)
    # Those that change are heard again after each change.
    for call in [*restless, *taken]:
        assert len(stream(call.rtp, ended - 0.5, ended)) > 10
    for call in [*quiet, *restless, *taken]:
        assert status_of(call.bye()) == 200
    # And towards the core: every packet of the quiet ones was taken and recorded.
    for call in quiet:
        number = numbers[call.call_id]
        stats = core.wait_event("CallEnded", id=number)["stats"]
        assert stats["rx_lost"] == stats["rx_late"] == stats["tx_errors"] == 0
        assert stats["rx_packets"] == pytest.approx(call.rtp.sent, abs=3)
        _, (left, _) = audio.read_wav(Path(core.wait_event("answered", id=number)["recording"]))
        run = audio.heard(left, CALLER_NOTES)
        assert audio.in_order(run, CALLER_NOTES), run
        assert len(run) >= LASTS_S / 0.5 - 2
    assert core.stats()["calls_active"] == 0
