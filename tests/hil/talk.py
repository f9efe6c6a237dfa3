# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of calls share: one that is up (telephone, or packet by packet), and the core's melody heard in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from hil.conftest import CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.closing import Closing
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import Dialog
from hil.peers.phone import Phone, PhoneCall
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd
from hil.peers.script import ScriptEnd


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


class ScriptedCall(Closing):
    """A call to the core, answered, whose RTP the test writes packet by packet."""

    def __init__(
        self, core: LocalCore, name: str, offer: Callable[[int], str], *, host: str = "127.0.0.1"
    ) -> None:
        """`offer` makes the SDP for the port of our RTP."""
        self.core = core
        self.sip = Datagrams(core.sip)
        self.rtp = ScriptEnd(host)
        self.body = offer(self.rtp.port)
        try:
            self.dialog = Dialog(self.sip, name, body=self.body)
            self.number = core.call(self.dialog.call_id)
            self.answered = core.wait_event("answered", id=self.number)
        except BaseException:
            self.close()
            raise

    def send(self, packets: Iterable[tuple[float, bytes]]) -> None:
        self.rtp.run(packets, self.dialog.remote_rtp)

    def close(self) -> None:
        self.rtp.close()
        self.sip.close()
