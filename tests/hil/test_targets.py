# SPDX-License-Identifier: GPL-3.0-or-later
"""Offers that would have us send media to a group, to a service or to ourselves: 488, and not one packet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore, python_environment
from hil.peers.datagrams import SDP, Datagrams, status_of
from hil.peers.dialog import Dialog

GOOD = SDP.format(port=40000, formats="8 0 101")


def offer(address: str = "127.0.0.1", port: int = 40000, family: str = "IP4") -> str:
    return GOOD.replace("c=IN IP4 127.0.0.1", f"c=IN {family} {address}").replace(
        "audio 40000", f"audio {port}"
    )


REFUSED = {
    "multicast": offer("239.1.2.3"),
    "multicast with TTL": offer("224.2.1.1/127"),
    "all systems": offer("224.0.0.1"),
    "broadcast": offer("255.255.255.255"),
    "reserved": offer("240.0.0.1"),
    "this network": offer("0.1.2.3"),
    "another family": offer("2001:db8::1", family="IP6"),
    "multicast of IPv6": offer("ff02::1", family="IP6"),
    "link-local": offer("fe80::1", family="IP6"),
    "mapped multicast": offer("::ffff:224.0.0.1", family="IP6"),
    "no address": offer("example.com"),
    "port 0": offer(port=0),
    "port of DNS": offer(port=53),
    "port 1023": offer(port=1023),
    "no c=": GOOD.replace("c=IN IP4 127.0.0.1\r\n", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_offers_to_send_where_nobody_listens_are_refused(core: LocalCore, name: str) -> None:
    before = core.stats()
    with Datagrams(core.sip) as caller:
        answer = caller.answer_to(caller.invite(user="answer", body=REFUSED[name]))
        assert answer
        # Without c= it is no SDP at all (RFC 8866 section 5.7), which PJSIP finds out itself.
        assert status_of(answer) in ((400, 488) if name == "no c=" else (488,)), answer
    after = core.stats()
    assert after["calls_total"] == before["calls_total"]
    assert after["tx_packets"] == before["tx_packets"]


ELSEWHERE = """
import sys
from pathlib import Path
from hil.drivers.local import LocalCore, python_environment
from hil.peers.datagrams import Datagrams, status_of
from hil.test_targets import offer

core = LocalCore(Path(sys.argv[1]), bind="198.51.100.1", guard={"acl": ["198.51.100.0/24"]})
try:
    with Datagrams(core.sip, host="198.51.100.2") as caller:
        for address, expected in (("127.0.0.1", 488), ("127.9.9.9", 488), ("198.51.100.2", 486)):
            answer = caller.answer_to(caller.invite(user="reject486", body=offer(address)))
            assert answer, address
            assert status_of(answer) == expected, (address, answer)
finally:
    core.process.stop(5)
"""


def test_a_stranger_cannot_send_us_to_ourselves(tmp_path: Path) -> None:
    """From loopback 127.0.0.1 is an address like others; from elsewhere it is a service of this machine."""
    setup = "ip link set lo up && ip addr add 198.51.100.1/32 dev lo && ip addr add 198.51.100.2/32 dev lo"
    inside = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if subprocess.run([*inside, setup], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespace of our own to be had here")
    run = subprocess.run(
        [*inside, f'{setup} && exec "$0" -c "$1" "$2"', sys.executable, ELSEWHERE, str(tmp_path)],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_an_offer_within_the_call_keeps_the_call_as_it_is(core: LocalCore) -> None:
    with Datagrams(core.sip) as caller, Dialog(caller, "target") as dialog:
        for number, (name, body) in enumerate(REFUSED.items(), 2):
            if name in ("port 0", "no c="):  # the end of the stream; no SDP
                continue
            again = dialog.request("INVITE", cseq=number).replace(
                b"Content-Length: 0\r\n\r\n",
                f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode(),
            )
            answer = caller.answer_to(again)
            assert answer, name
            assert status_of(answer) == 488, (name, answer)
            caller.send(dialog.request("ACK", cseq=number))
        # The call is up still: its end is a BYE that is answered.


def test_hold_of_the_old_kind_is_no_target(core: LocalCore) -> None:
    """c=0.0.0.0 (RFC 3264 section 8.4), also with the discard port: answered, and nothing sent."""
    for port in (40000, 9):
        with Datagrams(core.sip) as caller:
            answer = caller.answer_to(
                caller.invite(user="reject486", body=offer("0.0.0.0", port=port))
            )
            assert answer
            assert status_of(answer) == 486, answer
