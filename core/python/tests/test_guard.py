# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call, between two engines: passwords by PJSIP's own client, draining, the ACL as it changes."""

from __future__ import annotations

import asyncio

import pytest

from loopback import Pair, StartEngine, soon
from voicecore import ConfigError, GuardConfig, SignallingError, VoicecoreError, check_trunk

USERS = {"alice": "open sesame"}


async def test_a_caller_with_a_password(start_engine: StartEngine) -> None:
    guard = GuardConfig(users=USERS, realm="here")
    pair = Pair(await start_engine(), await start_engine(guard=guard))
    for username, password in ((None, None), ("alice", "wrong"), ("bob", "open sesame")):
        with pytest.raises(SignallingError) as refused:
            await soon(pair.caller.dial(pair.uri(), username=username, password=password))
        assert refused.value.status == 401, username
    dialling = asyncio.create_task(
        pair.caller.dial(pair.uri(), username="alice", password="open sesame")
    )
    into = await pair.next_call()
    await soon(into.answer())
    out = await soon(dialling)
    assert into.account == "alice"
    assert "alice" not in repr(into)
    assert out.account is None
    stats = pair.callee.stats()
    assert (stats.sip_auth_failed, stats.calls_total) == (2, 1)
    assert stats.sip_challenged >= 4
    out.hangup()


async def test_draining(pair: Pair) -> None:
    out, into = await pair.connect()
    pair.callee.drain(retry_after_s=9)
    told = [pair.callee.draining]
    with pytest.raises(SignallingError) as refused:
        await soon(pair.caller.dial(pair.uri()))
    assert refused.value.status == 503
    assert into.stats().tx_errors == 0
    with pytest.raises(ConfigError):
        pair.callee.drain(retry_after_s=-1)
    pair.callee.undrain()
    assert [*told, pair.callee.draining] == [True, False]
    again, _ = await pair.connect()
    again.hangup()
    out.hangup()


async def test_drain_and_acl_need_a_running_engine(start_engine: StartEngine) -> None:
    engine = await start_engine()
    engine.set_acl(["192.0.2.0/24", "2001:db8::/32"])
    engine.set_acl(None)
    with pytest.raises(ConfigError, match=r"guard\.acl"):
        engine.set_acl(["192.0.2.1/24"])
    await engine.stop()
    for call in (engine.drain, engine.undrain, lambda: engine.set_acl(None)):
        with pytest.raises(VoicecoreError) as gone:
            call()
        assert gone.value.code == "engine.not_running"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("acl", ["nobody"]),
        ("acl", ["192.0.2.0/33"]),
        ("unlisted", "maybe"),
        ("unlisted", "challenge"),
        ("scanners", ["a"]),
        ("realm", 'a"b'),
        ("users", {"a:b": "x"}),
        ("users", {"alice": ""}),
        ("nonce_s", 1),
        ("invites_per_s", -1.0),
        ("invites_per_s", float("nan")),
        ("invite_burst", 0),
        ("calls_per_source", -1),
        ("pending_per_source", 5000),
        ("sources_max", 1),
    ],
)
def test_bad_values_name_their_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as bad:
        GuardConfig(**{field: value})  # type: ignore[arg-type]
    assert bad.value.field == f"guard.{field}"
    assert bad.value.problem
    assert bad.value.remedy


def test_it_prints_without_names_and_passwords() -> None:
    guard = GuardConfig(users=USERS, acl=["192.0.2.7", "2001:db8::/32"], unlisted="challenge")
    assert guard.acl == ["192.0.2.7/32", "2001:db8::/32"]
    for text in (repr(guard), str(guard)):
        assert "alice" not in text
        assert "sesame" not in text


def test_a_trunk_is_checked_by_the_rule_of_add_trunk() -> None:
    check_trunk(server="sip:sip.example.com", aor="sip:100@example.com", username="100")
    with pytest.raises(ConfigError) as bad:
        check_trunk(server="sip:sip.example.com:99999")
    assert bad.value.field == "trunk.server"
