# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests with a telephone in plain Python have in common: a call that is up, and the core's melody heard in it."""

from __future__ import annotations

import time

from hil.conftest import CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import status_of
from hil.peers.phone import Phone, PhoneCall
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd


def connected(core: LocalCore, phone: Phone) -> tuple[PhoneCall, int]:
    """A call of the telephone's that the core has answered, and the core's number of it."""
    call = phone.new("answer")
    assert status_of(call.call()) == 200
    number = core.call(call.call_id)
    core.wait_event("answered", id=number)
    return call, number


def hears(rtp: RtpEnd, count: int = 3, since: float = 0.0) -> None:
    """At least `count` of the core's notes come after `since`, in monotonic seconds, and in their order."""

    def run() -> list[float]:
        return audio.heard(rtp.samples(rtp.since(since)), CORE_NOTES)

    eventually("the core's melody", lambda: len(run()) >= count, 6)
    assert audio.in_order(run(), CORE_NOTES), run()


def hears_from_now(call: PhoneCall, count: int = 2) -> None:
    """As `hears`, of what is still to come."""
    hears(call.rtp, count, time.monotonic())
