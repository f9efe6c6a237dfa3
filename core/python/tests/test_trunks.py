# SPDX-License-Identifier: GPL-3.0-or-later
"""Trunks against a registrar in plain Python, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from hil.peers.pki import Authority
from hil.peers.registrar import Registrar, header

from loopback import PATIENCE_S, Pair, StartEngine, soon
from voicecore import ConfigError, Engine, SignallingError, Trunk


async def until(what: str, look: Callable[[], bool]) -> None:
    """Waits for something that the registrar's threads or the core bring about."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not look():  # noqa: ASYNC110  the registrar's threads set no event of ours
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S:g} s: {what}") from None


def trunk_at(
    engine: Engine, registrar: Registrar, password: str = "geheim", **more: object
) -> Trunk:
    options = {"aor": "sip:4930123456@example.org", "username": "bot", "password": password}
    return engine.add_trunk(
        "provider",
        server=registrar.uri,
        register=True,
        **{**options, **more},  # type: ignore[arg-type]
    )


def state_of(trunk: Trunk) -> str:
    assert trunk.registration is not None
    return trunk.registration.state


@pytest.mark.parametrize(
    ("offered", "used"),
    [
        (("MD5",), "MD5"),
        (("SHA-256",), "SHA-256"),
        (("SHA-256", "MD5"), "SHA-256"),
        (("MD5", "SHA-256"), "SHA-256"),
    ],
)
async def test_the_strongest_digest_is_answered(
    start_engine: StartEngine, offered: tuple[str, ...], used: str
) -> None:
    with Registrar("geheim", algorithms=offered) as registrar:
        trunk = trunk_at(await start_engine(), registrar)
        await until("registered", lambda: trunk.state == "up")
        assert [(seen.status, seen.algorithm) for seen in registrar.seen] == [
            (401, ""),
            (200, used),
        ]
        await soon(trunk.remove())
        assert header(registrar.seen[-1].text, "Expires") == "0"


async def test_an_unknown_algorithm_beside_a_known_one_is_passed_over(
    start_engine: StartEngine,
) -> None:
    with Registrar("geheim", algorithms=("SHA3-512", "MD5")) as registrar:
        trunk = trunk_at(await start_engine(), registrar)
        await until("registered", lambda: trunk.state == "up")
        assert registrar.seen[-1].algorithm == "MD5"


async def test_a_wrong_password_is_not_tried_again_and_again(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with Registrar("geheim") as registrar:
        caplog.set_level("INFO")
        trunk = trunk_at(await start_engine(), registrar, password="falsch")
        await until("refused", lambda: trunk.state == "down")
        assert trunk.registration is not None
        assert trunk.registration.status == 401
        # One challenge and one answer, then a pause of at least half a minute.
        assert [seen.status for seen in registrar.seen] == [401, 401]
        assert trunk.registration.retry_s is not None
        assert 30 <= trunk.registration.retry_s <= 60
        trunk.update_password("geheim")
        await until("registered", lambda: trunk.state == "up")
        assert "trunk provider: registration failed" in caplog.text
        assert "trunk provider: registered at 127.0.0.1" in caplog.text
        for private in ("4930123456", "geheim", "falsch"):
            assert private not in caplog.text


async def test_update_password_registers_at_once_and_keeps_the_binding(
    start_engine: StartEngine,
) -> None:
    with Registrar("old") as registrar:
        trunk = trunk_at(await start_engine(), registrar, password="old")
        await until("registered", lambda: trunk.state == "up")
        states: list[str] = []
        trunk.on_change(lambda t: states.append(t.state))
        contact = header(registrar.seen[-1].text, "Contact")
        registrar.password = "new"
        before = len(registrar.seen)
        trunk.update_password("new")
        await until(
            "registered anew",
            lambda: registrar.seen[-1].status == 200 and len(registrar.seen) > before,
        )
        assert header(registrar.seen[-1].text, "Contact") == contact
        assert "0" not in [header(seen.text, "Expires") for seen in registrar.seen]
        assert trunk.state == "up"
        assert states == []


async def test_two_changes_in_a_row_end_with_the_last_password(start_engine: StartEngine) -> None:
    with Registrar("third") as registrar:
        trunk = trunk_at(await start_engine(), registrar, password="first")
        trunk.update_password("second")
        trunk.update_password("third")
        await until("registered", lambda: trunk.state == "up")


async def test_retry_after_and_min_expires_are_kept_to(start_engine: StartEngine) -> None:
    said = iter([("503 Busy", "Retry-After: 1\r\n"), ("423 Too Brief", "Min-Expires: 700\r\n")])
    with Registrar("geheim") as registrar:
        registrar.refuse = lambda _: next(said, None)
        trunk = trunk_at(await start_engine(), registrar)
        await until("registered", lambda: trunk.state == "up")
        first, second, third = registrar.seen[:3]
        assert second.at - first.at >= 1.0
        assert header(third.text, "Expires") == "700"


async def test_a_lost_connection_is_made_again(start_engine: StartEngine) -> None:
    with Registrar("geheim", transport="tcp") as registrar:
        trunk = trunk_at(await start_engine(), registrar)
        await until("registered", lambda: trunk.state == "up")
        before = len(registrar.of("REGISTER"))
        registrar.drop_connections()
        await until("registered anew", lambda: len(registrar.of("REGISTER")) > before + 1)
        assert trunk.state == "up"


async def test_options_tell_up_and_down(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with Registrar("geheim") as registrar:
        engine = await start_engine()
        trunk = engine.add_trunk("pbx", server=registrar.uri, options_s=0.3, options_timeout_s=2.0)
        assert trunk.state == "unknown"
        await until("up", lambda: trunk.state == "up")
        assert trunk.status == 200
        assert trunk.rtt_ms is not None
        assert trunk.server == f"127.0.0.1:{registrar.port}"
        assert engine.stats().trunks == engine.stats().trunks_up == 1
        registrar.refuse = lambda _: ("", "")
        await until("down", lambda: trunk.state == "down")
        assert trunk.status == 408
        assert engine.stats().trunks_up == 0
        registrar.refuse = lambda _: ("404 Not Found", "")
        await until("up again", lambda: trunk.state == "up")
        await trunk.remove()
        assert engine.trunks == ()
        assert engine.stats().trunks == 0
    lines = [r.getMessage() for r in caplog.records if "trunk pbx" in r.getMessage()]
    assert [line.split(" at ")[0] for line in lines] == [
        "trunk pbx: up",
        "trunk pbx: down",
        "trunk pbx: up",
    ]


async def test_calls_choose_their_trunk(pair: Pair) -> None:
    """The number goes to the trunk's server through its proxy, under our name there."""
    host, port = pair.callee.sip_address
    trunk = pair.caller.add_trunk(
        "pbx",
        server="sip:pbx.example.org",
        proxy=f"sip:{host}:{port}",
        aor="sip:reception@example.org",
    )
    dialling = asyncio.create_task(pair.caller.dial("33612345678", trunk=trunk))
    incoming = await pair.next_call()
    assert incoming.dialled.uri == "sip:33612345678@pbx.example.org"
    assert incoming.caller.uri == "sip:reception@example.org"
    await soon(incoming.answer())
    (await soon(dialling)).hangup()


@pytest.mark.parametrize("number", ["", "1 2", "a@b", "1>2", "1\r\n2"])
async def test_a_number_that_no_uri_can_have_is_refused(
    start_engine: StartEngine, number: str
) -> None:
    engine = await start_engine()
    trunk = engine.add_trunk("pbx", server="sip:192.0.2.1")
    with pytest.raises(ConfigError) as caught:
        await engine.dial(number, trunk=trunk)
    assert number.strip() == "" or number not in str(caught.value)


async def test_register_needs_credentials(start_engine: StartEngine) -> None:
    engine = await start_engine()
    with pytest.raises(ConfigError, match="trunk p: register needs"):
        engine.add_trunk("p", server="sip:192.0.2.1", register=True)


async def test_registration_over_tls_with_our_certificate(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    """Mutual TLS: the registrar asks for a certificate of its authority and gets it."""
    authority = Authority(tmp_path / "ca")
    server, ours = authority.issue("registrar", "IP:127.0.0.1"), authority.issue("bot", "DNS:bot")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.load_verify_locations(authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    with Registrar("geheim", transport="tls", context=context) as registrar:
        engine = await start_engine(
            tls_ca_file=authority.cert, tls_cert_file=ours.cert, tls_key_file=ours.key, tls_port=0
        )
        trunk = trunk_at(engine, registrar)
        await until("registered", lambda: trunk.state == "up")
        contact = header(registrar.seen[-1].text, "Contact")
        assert ";transport=tls" in contact
        assert header(registrar.seen[-1].text, "Via").startswith("SIP/2.0/TLS ")
        bare = await start_engine(tls_ca_file=authority.cert)
        refused = trunk_at(bare, registrar)
        await until("refused", lambda: refused.state == "down")
        assert refused.registration is not None
        assert "TLS to 127.0.0.1" in refused.registration.reason


async def test_a_trunk_that_nobody_can_find_is_named(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """The name server is silent; nothing leaves this machine, and calls do not wait for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        engine = await start_engine(nameservers=[f"127.0.0.1:{mute.getsockname()[1]}"])
        trunk = engine.add_trunk("lost", server="sip:nowhere.invalid", options_s=10)
        with pytest.raises(SignallingError) as caught:
            await soon(engine.dial("1", trunk=trunk, timeout_s=8))
        assert caught.value.status == 502
        assert "the host name has no address" in str(caught.value)
        await until("down", lambda: trunk.state == "down")
        assert trunk.reason == "the trunk's host name has no address"
    assert "trunk lost: down: 502 the trunk's host name has no address" in caplog.text
