# SPDX-License-Identifier: GPL-3.0-or-later
"""Callers with a password: challenge, both algorithms, wrong ones, replay and nonces that have expired."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hil.drivers.local import LocalCore
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.digest import Challenge, challenges

USERS = {"alice": "open sesame", "bob": "pässword"}


@pytest.fixture(scope="module")
def core(start_core: Callable[..., LocalCore]) -> LocalCore:
    return start_core(guard={"users": USERS, "realm": "tests", "nonce_s": 5})


def asked(caller: Datagrams, header: str = "", expect: int = 401) -> list[Challenge]:
    """The challenges that an INVITE with this header gets."""
    answer = caller.answer_to(caller.invite(user="reject486", headers=header))
    assert answer, "no answer"
    assert status_of(answer) == expect, answer
    return challenges(answer)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("algorithm", ["SHA-256", "MD5"])
def test_who_knows_the_password_gets_through(core: LocalCore, name: str, algorithm: str) -> None:
    password = USERS[name]
    with Datagrams(core.sip) as caller:
        found = asked(caller)
        assert [c.algorithm for c in found] == ["SHA-256", "MD5"], "the stronger first (RFC 8760)"
        assert {(c.realm, c.stale) for c in found} == {("tests", False)}
        (challenge,) = (c for c in found if c.algorithm == algorithm)
        assert asked(caller, challenge.answer(name, password), 486) == []
        assert asked(caller, challenge.answer(name, password, count=2), 486) == []
        assert core.events("call")[-1]["account"] == name


def test_who_does_not_does_not(core: LocalCore) -> None:
    before = core.stats()
    with Datagrams(core.sip) as caller:
        challenge = asked(caller)[0]
        for name, password in (("alice", "wrong"), ("bob", "open sesame"), ("carol", "x")):
            again = asked(caller, challenge.answer(name, password))
            assert not any(c.stale for c in again), "stale would say that the password is right"
        good = challenge.answer("alice", "open sesame")
        for broken in (
            good.replace("response=", "response=x"),
            good.replace("realm=", "realm=x"),
            good.replace("qop=auth", "qop=auth-int"),
            good.replace("algorithm=SHA-256", "algorithm=SHA-1"),
            good.replace("Digest", "Basic"),
            "Authorization: Digest",
            "Authorization: Digest " + "x" * 3000,
        ):
            answer = caller.answer_to(caller.invite(user="reject486", headers=broken), 0.5)
            assert answer is None or status_of(answer) in (400, 401), (broken, answer)
        assert caller.alive() == 200, "only INVITE is challenged"
    after = core.stats()
    assert after["sip_auth_failed"] > before["sip_auth_failed"]
    assert after["calls_total"] == before["calls_total"]


def test_credentials_that_were_seen_on_the_way_are_worth_nothing(core: LocalCore) -> None:
    with Datagrams(core.sip) as caller, Datagrams(core.sip, host="127.0.0.9") as thief:
        challenge = asked(caller)[0]
        header = challenge.answer("alice", "open sesame")
        asked(caller, header, 486)
        for who in (thief, caller):
            again = asked(who, header)
            assert all(c.stale and c.nonce != challenge.nonce for c in again)
        asked(caller, challenge.answer("alice", "open sesame", count=7), 486)
        again = asked(caller, challenge.answer("alice", "open sesame", count=6))
        assert again[0].stale, "counts only go up"
        asked(caller, again[0].answer("alice", "open sesame"), 486)


def test_a_nonce_expires_and_the_caller_is_told_to_try_again(core: LocalCore) -> None:
    with Datagrams(core.sip) as caller:
        challenge = asked(caller)[1]
        time.sleep(5.2)
        again = asked(caller, challenge.answer("bob", "pässword"))
        assert all(c.stale for c in again)
        asked(caller, again[1].answer("bob", "pässword"), 486)
        made_up = Challenge("tests", "00" * 24, "SHA-256", False)
        asked(caller, made_up.answer("alice", "guessed"))


def test_a_challenge_only_for_those_outside_the_acl(start_core: Callable[..., LocalCore]) -> None:
    guard = {"users": USERS, "acl": ["127.0.0.2/32"], "unlisted": "challenge"}
    core = start_core(guard=guard)
    with (
        Datagrams(core.sip, host="127.0.0.2") as listed,
        Datagrams(core.sip, host="127.0.0.3") as out,
    ):
        asked(listed, expect=486)
        assert core.events("call")[-1]["account"] is None
        challenge = asked(out)[0]
        asked(out, challenge.answer("alice", "open sesame"), 486)
        out.send(out.request("OPTIONS"))
        assert out.receive(0.4) is None
    log = core.log()
    assert "alice" not in log
    assert "sesame" not in log
