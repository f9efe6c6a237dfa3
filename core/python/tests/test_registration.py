# SPDX-License-Identifier: GPL-3.0-or-later
"""Registration with a registrar that asks for digest authentication."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopback import StartEngine, soon
from voicecore import Registration


class Registrar(asyncio.DatagramProtocol):
    """Challenges each REGISTER once, then accepts or refuses it."""

    def __init__(self, refuse_with: int | None = None) -> None:
        self.refuse_with = refuse_with
        self.seen: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        request = data.decode()
        if not request.startswith("REGISTER "):
            return
        self.seen.append(request)
        extra = ""
        if "\r\nAuthorization:" not in request:
            status = "401 Unauthorized"
            extra = (
                'WWW-Authenticate: Digest realm="test", nonce="abc", algorithm=MD5, qop="auth"\r\n'
            )
        elif self.refuse_with is not None:
            status = f"{self.refuse_with} No"
        else:
            status = "200 OK"
            contact = re.search(r"\r\nContact: *(<[^>]*>)", request)
            expires = header(request, "Expires")
            extra = f"Contact: {contact[1] if contact else '*'};expires={expires}\r\n"
        copied = "".join(
            f"{name}: {header(request, name)}\r\n" for name in ("Via", "From", "Call-ID", "CSeq")
        )
        answer = f"SIP/2.0 {status}\r\n{copied}To: {header(request, 'To')};tag=1\r\n{extra}"
        self.transport.sendto(f"{answer}Content-Length: 0\r\n\r\n".encode(), addr)


def header(message: str, name: str) -> str:
    found = re.search(rf"\r\n{name}: *([^\r]*)", message, re.IGNORECASE)
    return found[1] if found else ""


async def until(registration: Registration, state: str) -> None:
    """Waits for a state."""
    changed = asyncio.Event()
    registration.on_change(lambda _: changed.set())
    while registration.state != state:
        changed.clear()
        await soon(changed.wait())


@contextlib.asynccontextmanager
async def on_loopback(registrar: Registrar) -> AsyncIterator[str]:
    """Runs it; gives its URI."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: registrar, local_addr=("127.0.0.1", 0)
    )
    host, port = transport.get_extra_info("sockname")
    try:
        yield f"sip:{host}:{port}"
    finally:
        transport.close()
        await asyncio.sleep(0)


async def test_register_and_unregister(start_engine: StartEngine) -> None:
    registrar = Registrar()
    async with on_loopback(registrar) as uri:
        engine = await start_engine()
        registration = engine.register(
            aor="sip:100@example.org", registrar=uri, username="user", password="geheim"
        )
        await until(registration, "registered")
        assert registration.status == 200
        authorised = registrar.seen[-1]
        assert 'username="user"' in header(authorised, "Authorization")
        assert "geheim" not in authorised
        assert "sip:100@example.org" in header(authorised, "To")
        assert str(engine.sip_address[1]) in header(authorised, "Contact")
        await soon(registration.unregister())
        await until(registration, "unregistered")
        assert header(registrar.seen[-1], "Expires") == "0"


async def test_a_refusal_is_told(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    registrar = Registrar(refuse_with=403)
    async with on_loopback(registrar) as uri:
        engine = await start_engine()
        registration = engine.register(
            aor="sip:4930123456@example.org",
            registrar=uri,
            username="4930123456",
            password="geheim",
        )
        await until(registration, "failed")
        assert registration.status == 403
        assert "403" in caplog.text
        assert "4930123456" not in caplog.text
        assert "geheim" not in caplog.text


async def test_stop_takes_the_binding_back(start_engine: StartEngine) -> None:
    registrar = Registrar()
    async with on_loopback(registrar) as uri:
        engine = await start_engine()
        registration = engine.register(
            aor="sip:100@example.org", registrar=uri, username="user", password="geheim"
        )
        await until(registration, "registered")
        await engine.stop()
        assert header(registrar.seen[-1], "Expires") == "0"
