# SPDX-License-Identifier: GPL-3.0-or-later
"""Encrypted calls between two engines: by engine, by call, by trunk."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from loopback import Pair, StartEngine, next_of, soon
from voicecore import (
    Call,
    CallEnded,
    CallReplaced,
    ConfigError,
    EngineConfig,
    SignallingError,
    TransferRequested,
)

CM = "AES_CM_128_HMAC_SHA1_80"


def suites(out: Call, into: Call) -> tuple[str | None, str | None]:
    """What each side says."""
    return out.stats().srtp, into.stats().srtp


@pytest.mark.parametrize(
    ("caller", "callee", "suite"),
    [
        ("off", "off", None),
        ("off", "optional", None),
        ("optional", "off", None),
        ("optional", "optional", CM),
        ("optional", "required", CM),
        ("required", "optional", CM),
        ("required", "required", CM),
    ],
)
async def test_by_engine(
    start_engine: StartEngine, caller: str, callee: str, suite: str | None
) -> None:
    pair = Pair(await start_engine(srtp=caller), await start_engine(srtp=callee))
    out, into = await pair.connect()
    assert suites(out, into) == (suite, suite)
    await asyncio.sleep(0.3)
    out.hangup()
    stats = (await soon(next_of(into, CallEnded))).stats
    assert stats.rx_packets > 5
    assert (stats.srtp, stats.srtp_auth_errors, stats.srtp_replays) == (suite, 0, 0)


@pytest.mark.parametrize(("caller", "callee"), [("off", "required"), ("required", "off")])
async def test_two_that_want_different_things(
    start_engine: StartEngine, caller: str, callee: str
) -> None:
    pair = Pair(await start_engine(srtp=caller), await start_engine(srtp=callee))
    with pytest.raises(SignallingError) as refused:
        await soon(pair.caller.dial(pair.uri()))
    assert refused.value.status == 488


async def test_by_call(start_engine: StartEngine) -> None:
    here, there = await start_engine(), await start_engine(srtp="required")
    uri = f"sip:100@127.0.0.1:{there.sip_address[1]}"
    with pytest.raises(ConfigError, match="optional"):
        await here.dial(uri, srtp="yes")
    with pytest.raises(SignallingError) as refused:
        await here.dial(uri)
    assert refused.value.status == 488
    dialled = asyncio.create_task(here.dial(uri, srtp="required"))
    into = await soon(anext(there.incoming()))
    await into.answer()
    out = await soon(dialled)
    assert suites(out, into) == (CM, CM)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_by_trunk_both_ways(start_engine: StartEngine, host: str) -> None:
    """A trunk with a mode of its own at an engine without SRTP: for calls over it, and for those that come from it."""
    here, there = await start_engine(), await start_engine(srtp="optional")
    port = there.sip_address[1]
    with pytest.raises(ConfigError, match="required"):
        here.add_trunk("pbx", server=f"sip:{host}:{port}", srtp="Required")
    trunk = here.add_trunk("pbx", server=f"sip:{host}:{port}", srtp="required")
    assert (trunk.srtp, here.trunks) == ("required", (trunk,))
    dialled = asyncio.create_task(here.dial("100", trunk=trunk))
    into = await soon(anext(there.incoming()))
    await into.answer()
    assert suites(await soon(dialled), into) == (CM, CM)
    # Back: what comes from the trunk's address must be encrypted, as long as there is the trunk.
    back = f"sip:200@127.0.0.1:{here.sip_address[1]}"
    await asyncio.sleep(0.2)  # the name is looked up
    with pytest.raises(SignallingError) as refused:
        await there.dial(back, srtp="off")
    assert refused.value.status == 488
    dialled = asyncio.create_task(there.dial(back))
    into = await soon(anext(here.incoming()))
    await into.answer()
    assert suites(await soon(dialled), into) == (CM, CM)
    await trunk.remove()
    dialled = asyncio.create_task(there.dial(back, srtp="off"))
    into = await soon(anext(here.incoming()))
    await into.answer()
    assert suites(await soon(dialled), into) == (None, None)


async def test_hold_and_resume_keep_the_keys(start_engine: StartEngine) -> None:
    pair = Pair(await start_engine(srtp="required"), await start_engine(srtp="required"))
    out, into = await pair.connect()
    for call in (out, into):
        await soon(call.hold())
        await soon(call.resume())
    await asyncio.sleep(0.2)
    before = into.stats().rx_packets
    await asyncio.sleep(0.3)
    stats = into.stats()
    assert stats.rx_packets > before + 8
    assert (stats.srtp, stats.srtp_auth_errors, stats.srtp_replays) == (CM, 0, 0)


async def test_a_new_peer_by_replaces_has_new_keys(start_engine: StartEngine) -> None:
    """Attended transfer: the call of the target goes on, encrypted with its new far end."""
    agent = await start_engine(srtp="required")
    target = await start_engine(srtp="required")
    customer = await start_engine(srtp="required", transfer_requests="allow")
    call, far = await Pair(agent, customer).connect()
    consultation, at_target = await Pair(agent, target).connect()
    transfer = asyncio.create_task(call.transfer_to(consultation))
    await soon(next_of(far, TransferRequested))
    new = await soon(customer.follow_transfer(far))
    assert await soon(transfer) == 200
    await soon(next_of(at_target, CallReplaced))
    await asyncio.sleep(0.1)
    before = [side.stats() for side in (new, at_target)]
    await asyncio.sleep(0.4)
    for side, was in zip((new, at_target), before, strict=True):
        stats = side.stats()
        assert stats.rx_packets > was.rx_packets + 10, stats
        assert stats.srtp == CM
        assert stats.srtp_auth_errors == was.srtp_auth_errors, "keys do not fit"


async def test_keys_reach_no_log_and_their_way_is_warned_of_once(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pair = Pair(await start_engine(srtp="required"), await start_engine(srtp="required"))
    for _ in range(3):
        out, into = await pair.connect()
        out.hangup()
        await soon(next_of(into, CallEnded))
    assert not re.search(r"inline|a=crypto", caplog.text)
    told = [r for r in caplog.records if "use TLS" in r.getMessage()]
    assert len(told) == 2, "once for each engine"
    assert all(r.levelno == logging.WARNING for r in told)


def test_a_mode_that_is_none() -> None:
    with pytest.raises(ConfigError, match='srtp: "on" is not known; use "off"'):
        EngineConfig(srtp="on")
    assert EngineConfig(srtp="optional").srtp == "optional"
    assert EngineConfig().srtp == "off"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


async def test_over_tls_nobody_is_warned(
    start_engine: StartEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert_file, key_file = certificate(tmp_path)
    port = free_port()
    ours = {"srtp": "required", "tls_ca_file": cert_file}
    there = await start_engine(
        **ours, tls_port=port, tls_cert_file=cert_file, tls_key_file=key_file
    )
    here = await start_engine(**ours)
    dialled = asyncio.create_task(here.dial(f"sip:100@127.0.0.1:{port};transport=tls"))
    into = await soon(anext(there.incoming()))
    await into.answer()
    out = await soon(dialled)
    assert suites(out, into) == (CM, CM)
    out.hangup()
    await soon(next_of(into, CallEnded))
    assert not [r for r in caplog.records if "use TLS" in r.getMessage()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
