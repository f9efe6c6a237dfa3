# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call: ACL, scanners, floods, limits for each source.

127.0.0.1 is the machine itself; 127.0.0.2 and those above are strangers.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from hil.drivers.local import LocalCore
from hil.peers import broken
from hil.peers.datagrams import Datagrams, field, status_of
from hil.peers.dialog import Dialog
from hil.peers.process import eventually

LISTED, STRANGER, OTHER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
# Long enough for an answer that should not be there: 100 Trying takes a millisecond.
SILENCE_S = 0.4


@pytest.fixture(scope="module")
def closed(start_core: Callable[..., LocalCore]) -> LocalCore:
    return start_core(guard={"acl": [f"{LISTED}/32", "2001:db8::/32"]})


@contextlib.contextmanager
def peer(core: LocalCore, host: str) -> Iterator[Datagrams]:
    with Datagrams(core.sip, host=host) as datagrams:
        yield datagrams


def assert_silent(source: Datagrams, request: bytes, what: str) -> None:
    source.send(request)
    answer = source.receive(SILENCE_S)
    assert answer is None, f"{what} was answered: {answer!r}"


def kept_out(core: LocalCore) -> int:
    stats = core.stats()
    return int(stats["sip_limited"]) + int(stats["sip_muted"])


def test_outside_the_acl_nothing_is_answered_and_all_is_counted(closed: LocalCore) -> None:
    before = closed.stats()
    with peer(closed, STRANGER) as stranger:
        requests = [stranger.invite()]
        requests += [stranger.request(m) for m in ("OPTIONS", "REGISTER", "CANCEL", "NONSENSE")]
        requests += [b"GET / HTTP/1.0\r\nHost: %s\r\n\r\n" % (b"x" * 40), b"\0" * 100]
        for request in requests:
            assert_silent(stranger, request, request[:20].decode())
        inside = stranger.request("BYE", to_tag="made-up")
        assert_silent(stranger, inside, "a BYE of no dialog")
    after = closed.stats()
    assert after["sip_unlisted"] == before["sip_unlisted"] + len(requests) + 1
    assert after["calls_total"] == before["calls_total"]
    assert after["sip_malformed"] == before["sip_malformed"], (
        "it was parsed before the ACL was asked"
    )
    with peer(closed, LISTED) as listed, peer(closed, "127.0.0.1") as here:
        assert listed.alive() == here.alive() == 200


def test_outside_the_acl_a_connection_is_closed(closed: LocalCore) -> None:
    for host, alive in ((STRANGER, False), (LISTED, True), ("127.0.0.1", True)):
        with socket.create_connection(closed.sip, 3, source_address=(host, 0)) as connection:
            port = connection.getsockname()[1]
            with peer(closed, host) as writer:
                request = writer.request("OPTIONS").replace(b"SIP/2.0/UDP", b"SIP/2.0/TCP")
            connection.sendall(request[:50])
            connection.sendall(request[50:])
            try:
                answer = connection.recv(4096)
            except ConnectionResetError:
                answer = b""
            assert (status_of(answer) == 200) == alive, f"{host}:{port}: {answer!r}"


def test_a_call_may_be_ended_from_an_address_that_may_not_call(closed: LocalCore) -> None:
    """The peer's media gateway may send BYE itself (RFC 3261 section 12.2): who knows the tags is in the call."""
    with peer(closed, LISTED) as caller, peer(closed, STRANGER) as gateway:
        dialog = Dialog(caller, "gateway")
        number = closed.call(dialog.call_id)
        assert_silent(gateway, dialog.request("BYE", cseq=2, to_tag="guessed"), "a guess")
        answer = gateway.answer_to(dialog.request("BYE", cseq=2))
        assert answer, "no answer to BYE"
        assert status_of(answer) == 200
        closed.wait_event("CallEnded", id=number)


def test_a_refusal_for_those_outside_if_so_wished(start_core: Callable[..., LocalCore]) -> None:
    core = start_core(guard={"acl": [f"{LISTED}/32"], "unlisted": "refuse"})
    with peer(core, STRANGER) as stranger, peer(core, LISTED) as listed:
        for request in (stranger.invite(), stranger.request("OPTIONS")):
            answer = stranger.answer_to(request)
            assert answer
            assert status_of(answer) == 403
        for _ in range(200):
            stranger.send(stranger.request("OPTIONS"))
        eventually("a flood is not answered for ever", lambda: core.stats()["sip_muted"] > 100, 3)
        assert stranger.drain() < 40
        assert listed.alive() == 200


@pytest.mark.parametrize(
    "agent", ["friendly-scanner", "sipvicious", "Sipcli/v1.8", "VaxSIPUserAgent/3.1", "pplsip"]
)
def test_scanners_get_no_answer(core: LocalCore, agent: str) -> None:
    before = core.stats()["sip_scanners"]
    with peer(core, "127.0.0.1") as scanner:
        header = f"User-Agent: {agent}"
        for request in (
            scanner.request("OPTIONS", headers=header),
            scanner.request("REGISTER", headers=header),
            scanner.request("INVITE", headers=header, body="v=0\r\n"),
        ):
            assert_silent(scanner, request, agent)
        assert scanner.alive() == 200
    assert core.stats()["sip_scanners"] == before + 3


def test_names_of_scanners_are_a_setting(start_core: Callable[..., LocalCore]) -> None:
    core = start_core(guard={"scanners": ["bad phone"]})
    with peer(core, "127.0.0.1") as scanner:
        assert_silent(
            scanner, scanner.request("OPTIONS", headers="User-Agent: A Bad Phone 3"), "it"
        )
        answer = scanner.answer_to(
            scanner.request("OPTIONS", headers="User-Agent: friendly-scanner")
        )
        assert answer
        assert status_of(answer) == 200


def test_a_flood_of_rubbish_mutes_its_source_but_not_its_calls(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core()
    with peer(core, STRANGER) as flooder, peer(core, OTHER) as other:
        dialog = Dialog(flooder, "flooder")
        for datagram in broken.garbage(20260105, 400):
            if datagram:
                flooder.send(datagram)
        eventually("the flood to be counted", lambda: core.stats()["sip_muted"] > 0, 3)
        flooder.drain()
        assert_silent(flooder, flooder.request("OPTIONS"), "a new request of a muted source")
        assert other.alive() == 200
        dialog.end()


def test_one_source_cannot_fill_the_box_with_calls_it_does_not_acknowledge(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(max_calls=20, guard={"pending_per_source": 5})
    with peer(core, STRANGER) as attacker, peer(core, OTHER) as other:
        for number in range(60):
            attacker.send(attacker.invite(user="answering", call_id=f"hold{number}@attacker"))
        eventually("all to be kept out", lambda: kept_out(core) >= 55, 3)
        assert core.stats()["calls_active"] == 5
        with Dialog(other, "other"):
            assert core.stats()["calls_active"] == 6


def test_sources_without_end_hold_at_most_half_of_the_box(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(max_calls=20)
    with contextlib.ExitStack() as stack:
        for number in range(40):
            forged = stack.enter_context(peer(core, f"127.0.1.{number + 1}"))
            forged.send(forged.invite(user="answering", call_id=f"forged{number}@attacker"))
        eventually("the limit to be reached", lambda: core.stats()["sip_limited"] >= 30, 3)
        assert core.stats()["calls_active"] == 10
        here = stack.enter_context(peer(core, "127.0.0.1"))
        with Dialog(here, "here"):
            pass


def test_invites_a_second_are_bounded_and_told_when_to_come_again(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(guard={"invites_per_s": 0.01, "invite_burst": 4})
    with peer(core, STRANGER) as caller, peer(core, OTHER) as other:
        statuses = []
        for _ in range(6):
            answer = caller.answer_to(caller.invite(user="reject486"))
            assert answer
            statuses.append(status_of(answer))
            if statuses[-1] == 503:
                assert int(field(answer, "Retry-After") or 0) > 0
        assert statuses == [486] * 4 + [503] * 2
        answer = other.answer_to(other.invite(user="reject486"))
        assert answer
        assert status_of(answer) == 486


def test_calls_of_one_source_are_bounded(start_core: Callable[..., LocalCore]) -> None:
    core = start_core(guard={"calls_per_source": 2})
    with peer(core, STRANGER) as caller, peer(core, OTHER) as other:
        with Dialog(caller, "first"), Dialog(caller, "second"):
            answer = caller.answer_to(caller.invite(user="answer"))
            assert answer
            assert status_of(answer) == 503
            with Dialog(other, "other"):
                pass
        with Dialog(caller, "third"):
            pass


def test_draining_refuses_what_is_new_and_serves_what_is_up(core: LocalCore) -> None:
    with peer(core, "127.0.0.1") as caller:
        with Dialog(caller, "before") as dialog:
            core.drain(retry_after_s=17)
            for request in (caller.invite(user="answer"), caller.request("OPTIONS")):
                answer = caller.answer_to(request)
                assert answer
                assert (status_of(answer), field(answer, "Retry-After")) == (503, "17")
            for number, method in enumerate(("OPTIONS", "UPDATE"), 2):
                answer = caller.answer_to(dialog.request(method, cseq=number))
                assert answer, method
                assert status_of(answer) == 200, answer
        core.undrain()
        assert caller.alive() == 200
        with Dialog(caller, "after"):
            pass


@pytest.mark.slow
def test_a_call_without_ack_gives_its_place_free_after_32_s(
    start_core: Callable[..., LocalCore],
) -> None:
    """RFC 3261 section 13.3.1.4: 64·T1. The BYE that follows, and may go unanswered as well, holds no place."""
    core = start_core(max_calls=1)
    with peer(core, "127.0.0.1") as caller:
        answer = caller.answer_to(caller.invite(user="answering", call_id="noack@127.0.0.1"))
        assert answer
        assert status_of(answer) == 200
        number = core.call("noack@127.0.0.1")
        core.wait_event("CallEnded", 36, id=number)
        assert core.stats()["calls_active"] == 0
        with Dialog(caller, "next"):
            pass
