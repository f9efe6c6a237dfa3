# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls over TLS: certificates are verified, and what is wrong with one is said."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hil.peers.pki import Authority, Identity

from loopback import StartEngine, audio_flows, soon
from voicecore import Call, ConfigError, Engine, EngineConfig, SignallingError, VoicecoreError


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.issue("server", "IP:127.0.0.1", "DNS:localhost")


class Callee:
    """An engine that listens for TLS."""

    def __init__(self, engine: Engine, port: int) -> None:
        self.engine = engine
        self.port = port

    def uri(self, host: str = "127.0.0.1") -> str:
        return f"sip:100@{host}:{self.port};transport=tls"

    async def call_from(self, caller: Engine, host: str = "127.0.0.1") -> tuple[Call, Call]:
        dialling = asyncio.create_task(caller.dial(self.uri(host)))
        incoming: Call = await soon(anext(aiter(self.engine.incoming())))
        await soon(incoming.answer())
        return await soon(dialling), incoming


async def callee(start_engine: StartEngine, identity: Identity, **more: Any) -> Callee:
    port = free_port()
    engine = await start_engine(
        tls_cert_file=identity.cert, tls_key_file=identity.key, tls_port=port, **more
    )
    return Callee(engine, port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_call_over_tls(
    start_engine: StartEngine, authority: Authority, server: Identity, host: str
) -> None:
    there = await callee(start_engine, server)
    caller = await start_engine(tls_ca_file=authority.cert)
    out, incoming = await there.call_from(caller, host)
    await audio_flows(out, incoming)
    incoming.hangup()
    async for _ in out.events():
        pass


async def refused(caller: Engine, uri: str) -> SignallingError:
    with pytest.raises(SignallingError) as caught:
        await soon(caller.dial(uri))
    assert caught.value.status == 503
    return caught.value


async def test_a_certificate_of_strangers_is_refused_and_named(
    start_engine: StartEngine, tmp_path: Path, server: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    there = await callee(start_engine, server)
    caller = await start_engine(tls_ca_file=Authority(tmp_path / "other", "other").cert)
    error = await refused(caller, there.uri())
    reason = f"TLS to 127.0.0.1:{there.port}: the certificate is refused: it is not signed by"
    assert reason in str(error)
    assert reason in caplog.text


async def test_without_a_ca_file_the_authorities_of_the_system_count(
    start_engine: StartEngine, server: Identity
) -> None:
    there = await callee(start_engine, server)
    assert "not signed by" in str(await refused(await start_engine(), there.uri()))


async def test_a_certificate_for_another_host_is_refused_and_named(
    start_engine: StartEngine, authority: Authority
) -> None:
    other = authority.issue("other", "DNS:sip.example.org", "IP:127.0.0.9")
    there = await callee(start_engine, other)
    caller = await start_engine(tls_ca_file=authority.cert)
    error = await refused(caller, there.uri())
    assert "the certificate is refused: it is made out to another host name" in str(error)


async def test_an_expired_certificate_is_refused_and_named(
    start_engine: StartEngine, authority: Authority
) -> None:
    old = authority.issue("old", "IP:127.0.0.1", expired=True)
    there = await callee(start_engine, old)
    caller = await start_engine(tls_ca_file=authority.cert)
    error = await refused(caller, there.uri())
    assert "the certificate is refused: it has expired or is not valid yet" in str(error)


async def test_mutual_tls(
    start_engine: StartEngine, authority: Authority, server: Identity
) -> None:
    """Who has no certificate of our authority cannot call."""
    there = await callee(start_engine, server, tls_ca_file=authority.cert, tls_verify_client=True)
    ours = authority.issue("caller", "DNS:caller")
    known = await start_engine(
        tls_ca_file=authority.cert,
        tls_cert_file=ours.cert,
        tls_key_file=ours.key,
        tls_port=free_port(),
    )
    out, _ = await there.call_from(known)
    out.hangup()
    stranger = await start_engine(tls_ca_file=authority.cert)
    with pytest.raises(SignallingError):
        await soon(stranger.dial(there.uri(), timeout_s=5))


def old_context(role: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening


@contextlib.asynccontextmanager
async def old_server(identity: Identity) -> AsyncIterator[int]:
    """Speaks nothing newer than TLS 1.1."""
    context = old_context(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    running = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    async with running:
        yield int(running.sockets[0].getsockname()[1])


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_nothing_older_than_tls_1_2(
    start_engine: StartEngine, authority: Authority, server: Identity
) -> None:
    there = await callee(start_engine, server)
    with pytest.raises(OSError):  # noqa: PT011  each OpenSSL words it differently
        await soon(
            asyncio.open_connection(
                "127.0.0.1", there.port, ssl=old_context(ssl.PROTOCOL_TLS_CLIENT)
            )
        )
    caller = await start_engine(tls_ca_file=authority.cert)
    async with old_server(server) as port:
        error = await refused(caller, f"sip:1@127.0.0.1:{port};transport=tls")
        assert "closed the connection" in str(error)
        assert "nothing newer than TLS 1.1" in str(error)
    # The other way round it works.
    out, _ = await there.call_from(caller)
    out.hangup()


async def test_who_never_finishes_the_handshake_is_let_go(
    start_engine: StartEngine, server: Identity
) -> None:
    """A connection that says nothing holds nobody up."""
    there = await callee(start_engine, server)
    with socket.create_connection(("127.0.0.1", there.port)) as silent:
        silent.sendall(b"\x16\x03\x01")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        _, writer = await soon(asyncio.open_connection("127.0.0.1", there.port, ssl=context))
        writer.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tls_ca_file": "nowhere.pem"}, "ca_file nowhere.pem: No such file"),
        ({"tls_cert_file": "server.pem"}, "tls_key_file: missing"),
        ({"tls_cert_file": "server.pem", "tls_key_file": "other.key"}, "key_file other.key"),
        ({"tls_cert_file": "ca.conf", "tls_key_file": "server.key"}, "cert_file ca.conf"),
        ({"tls_verify_client": True}, "tls_verify_client"),
    ],
)
async def test_files_that_cannot_work_are_named(
    start_engine: StartEngine,
    authority: Authority,
    server: Identity,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    says: str,
) -> None:
    authority.issue("other", "DNS:other")
    monkeypatch.chdir(server.cert.parent)
    with pytest.raises(ConfigError) as caught:
        await start_engine(**given)
    assert says in str(caught.value)


async def test_files_that_changed_are_read_again_and_calls_go_on(
    start_engine: StartEngine, authority: Authority, tmp_path: Path
) -> None:
    cert, key = tmp_path / "sip.pem", tmp_path / "sip.key"

    def put(identity: Identity) -> None:
        cert.write_bytes(identity.cert.read_bytes())
        key.write_bytes(identity.key.read_bytes())

    old = authority.issue("before", "DNS:before.example.org")
    new = authority.issue("after", "IP:127.0.0.1")
    put(authority.issue("first", "IP:127.0.0.1"))
    there = await callee(start_engine, Identity(cert, key))
    caller = await start_engine(tls_ca_file=authority.cert)
    out, incoming = await there.call_from(caller)
    put(old)
    there.engine.reload_tls()
    await shown(there.port, authority, "before.example.org")
    await audio_flows(out, incoming)
    cert.write_text("rubbish")
    with pytest.raises(ConfigError, match=r"cert_file .*sip\.pem"):
        there.engine.reload_tls()
    await shown(there.port, authority, "before.example.org")
    put(new)
    there.engine.reload_tls()
    other = await start_engine(tls_ca_file=authority.cert)
    await there.call_from(other)
    await audio_flows(out, incoming)


async def shown(port: int, authority: Authority, name: str) -> None:
    """Waits until the certificate at this port is made out to this name."""

    def look() -> bool:
        context = ssl.create_default_context(cafile=str(authority.cert))
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
                context.wrap_socket(plain, server_hostname=name),
            ):
                return True
        except (ssl.SSLError, OSError):
            return False

    for _ in range(200):
        if await asyncio.to_thread(look):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no certificate for {name}")


async def test_reloading_needs_a_running_engine() -> None:
    with pytest.raises(VoicecoreError) as refused:
        Engine(EngineConfig()).reload_tls()
    assert refused.value.code == "engine.not_running"
