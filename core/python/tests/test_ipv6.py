# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv6 for SIP and RTP, alone and beside IPv4."""

from __future__ import annotations

import asyncio

import pytest
from hil.peers.dns import NameServer, address
from hil.peers.registrar import Registrar, header

from loopback import Pair, StartEngine, audio_flows, soon
from voicecore import Call, Engine


async def call(caller: Engine, callee: Engine, uri: str) -> tuple[Call, Call]:
    dialling = asyncio.create_task(caller.dial(uri))
    incoming: Call = await soon(anext(aiter(callee.incoming())))
    await soon(incoming.answer())
    return await soon(dialling), incoming


async def both_hear(out: Call, incoming: Call) -> None:
    await audio_flows(out, incoming)
    out.hangup()


@pytest.mark.parametrize("transport", ["", ";transport=tcp"])
async def test_a_call_over_ipv6(start_engine: StartEngine, transport: str) -> None:
    pair = Pair(await start_engine(bind="::1"), await start_engine(bind="::1"))
    out, incoming = await call(pair.caller, pair.callee, pair.uri() + transport)
    assert incoming.source.startswith("[::1]:")
    await both_hear(out, incoming)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_both_versions_at_once(start_engine: StartEngine, host: str) -> None:
    """An engine on "::" is called by either version, and told its own address of that version."""
    both = await start_engine(bind="::")
    one = await start_engine(bind=host)
    port = both.sip_address[1]
    out, incoming = await call(one, both, f"sip:100@{f'[{host}]' if ':' in host else host}:{port}")
    await both_hear(out, incoming)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_engine_for_both_versions_calls_either(
    start_engine: StartEngine, host: str
) -> None:
    both = await start_engine(bind="::")
    one = await start_engine(bind=host)
    port = one.sip_address[1]
    out, incoming = await call(both, one, f"sip:100@{f'[{host}]' if ':' in host else host}:{port}")
    await both_hear(out, incoming)


async def test_a_name_with_both_addresses_is_called_by_the_version_that_we_have(
    start_engine: StartEngine,
) -> None:
    """An engine on ::1 alone reaches the name's second address."""
    with NameServer({"both.test": [address("127.0.0.1"), address("::1")]}) as names:
        caller = await start_engine(bind="::1", nameservers=[names.server])
        callee = await start_engine(bind="::1")
        out, incoming = await call(caller, callee, f"sip:100@both.test:{callee.sip_address[1]}")
        await both_hear(out, incoming)


async def test_a_registration_over_ipv6_has_literals_in_brackets(start_engine: StartEngine) -> None:
    with Registrar("geheim", host="::1") as registrar:
        engine = await start_engine(bind="::1")
        registration = engine.register(
            aor="sip:bot@[::1]", registrar=registrar.uri, username="bot", password="geheim"
        )
        changed = asyncio.Event()
        registration.on_change(lambda _: changed.set())
        await soon(changed.wait())
        assert registration.state == "registered"
        text = registrar.seen[-1].text
        port = engine.sip_address[1]
        assert f"<sip:bot@[::1]:{port}>" in header(text, "Contact")
        assert header(text, "Via").startswith(f"SIP/2.0/UDP [::1]:{port};")
        assert registration.server == f"[::1]:{registrar.port}"
