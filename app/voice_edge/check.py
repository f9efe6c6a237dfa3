# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge check``: would ``run`` work here? One small real request to each model server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import os
import resource
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from . import check_trunks
from .adapters import LlmClient, ServerError, SttClient, TtsClient
from .machine.events import Message
from .process import WANTED_DESCRIPTORS
from .servers import llms, stts, ttss
from .settings import Llm, Settings, Stt, Trunk, Tts

_FREE_WANTED = 1 << 30  # a stereo recording takes 115 MB an hour
_SPEECH_S = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    state: str  # "ok", "warn", "fail"
    detail: str


async def check(settings: Settings) -> list[Finding]:
    """Look at everything ``run`` depends on. A "fail" means that it would not work."""
    found = [
        _voicecore(),
        _sip_port(settings),
        _rtp_ports(settings),
        _recording(settings.recording.dir),
        *_srtp(settings),
        *_metrics(settings),
        _descriptors(),
    ]
    models, trunks = await asyncio.gather(_models(settings), _trunks(settings))
    return [*found, *trunks, *models]


def table(findings: list[Finding]) -> str:
    width = max(len(f.name) for f in findings)
    return "\n".join(f"{f.state:<4}  {f.name:<{width}}  {f.detail}" for f in findings)


def _voicecore() -> Finding:
    try:
        module = importlib.import_module("voicecore")
    except ImportError as error:
        return Finding("voicecore", "fail", f"cannot be imported ({error}); install its wheel")
    return Finding("voicecore", "ok", f"version {getattr(module, '__version__', 'unknown')}")


def _bind(host: str, port: int, kind: socket.SocketKind) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as sock:
        if kind is socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))


def _reason(error: OSError, key: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"in use; stop the other program or change {key}"
        case errno.EADDRNOTAVAIL:
            return "not an address of this machine; change sip.bind"
        case errno.EACCES:
            return f"not permitted; use a port from 1024 on in {key}"
    return f"{error.strerror}; change {key}"


def _sip_port(settings: Settings) -> Finding:
    sip = settings.sip
    kinds = [("UDP", socket.SOCK_DGRAM, sip.port, "sip.port")]
    if sip.tcp:
        kinds.append(("TCP", socket.SOCK_STREAM, sip.port, "sip.port"))
    if sip.tls.cert_file is not None:
        kinds.append(("TLS", socket.SOCK_STREAM, sip.tls.port, "sip.tls.port"))
    for name, kind, port, key in kinds:
        try:
            _bind(sip.bind, port, kind)
        except OSError as error:
            return Finding("SIP port", "fail", f"{name} {sip.bind} {port}: {_reason(error, key)}")
    ports = ", ".join(f"{name} {port or '(any)'}" for name, _, port, _ in kinds)
    return Finding("SIP port", "ok", f"free on {sip.bind}: {ports}")


def _metrics(settings: Settings) -> list[Finding]:
    """A warning: calls go on without."""
    where = settings.metrics
    if where.port is None:
        return []
    try:
        _bind(where.bind, where.port, socket.SOCK_STREAM)
    except OSError as error:
        detail = f"{where.bind} {where.port}: {_reason(error, 'metrics.port')}"
        return [Finding("metrics", "warn", detail)]
    return [Finding("metrics", "ok", f"free on {where.bind}: {where.port}")]


def _rtp_ports(settings: Settings) -> Finding:
    """Ports in use cost calls; the core passes over them."""
    low, high = settings.sip.rtp_ports
    taken = 0
    for port in range(low, high + 1):
        try:
            _bind(settings.sip.bind, port, socket.SOCK_DGRAM)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return Finding("RTP ports", "fail", f"{port}: {_reason(error, 'sip.rtp_ports')}")
            taken += 1
    room = (high - low + 1 - 2 * taken) // 2
    if room < settings.sip.max_calls:
        detail = f"{taken} of {low}-{high} in use: room for {max(room, 0)} calls"
        return Finding("RTP ports", "warn", f"{detail}; move sip.rtp_ports")
    return Finding("RTP ports", "ok", f"{low}-{high}, {taken} in use")


def _recording(folder: Path | None) -> Finding:
    if folder is None:
        return Finding("recordings", "ok", "off (recording.dir is not set)")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        disk = os.statvfs(folder)
    except OSError as error:
        detail = f"{folder}: {error.strerror}; change recording.dir or its owner"
        return Finding("recordings", "fail", detail)
    free = disk.f_bavail * disk.f_frsize
    detail = f"{folder}, {free / (1 << 30):.1f} GiB free"
    if free < _FREE_WANTED:
        return Finding("recordings", "warn", f"{detail}; make room")
    return Finding("recordings", "ok", detail)


def _srtp(settings: Settings) -> list[Finding]:
    """Keys of SRTP stand in SIP messages: encryption is worth what the way of these is worth."""
    mode = settings.media.srtp
    clear = [
        trunk.name
        for trunk in settings.sip.trunk
        if (trunk.srtp or mode) != "off" and not _over_tls(trunk)
    ]
    if clear:
        detail = (
            f"calls over {', '.join(clear)} may be encrypted, but their keys travel in clear; "
            'add ";transport=tls" to registrar, server or proxy'
        )
        return [Finding("media.srtp", "warn", detail)]
    if mode != "off" and settings.sip.tls.cert_file is None:
        detail = (
            f'"{mode}", but without sip.tls nobody can call here over TLS: keys come in clear; '
            "set sip.tls.cert_file and key_file"
        )
        return [Finding("media.srtp", "warn", detail)]
    return [Finding("media.srtp", "ok", mode)]


def _over_tls(trunk: Trunk) -> bool:
    """Whether what it is reached by names TLS: the proxy, else its server."""
    uri = trunk.proxy or trunk.registrar or trunk.server or ""
    return "transport=tls" in uri.lower() or uri.lower().startswith("sips:")


def _descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < WANTED_DESCRIPTORS:
        detail = f"hard limit {hard}, wanted {WANTED_DESCRIPTORS}; set LimitNOFILE in the unit"
        return Finding("descriptors", "warn", detail)
    return Finding("descriptors", "ok", f"limit can be raised to {WANTED_DESCRIPTORS}")


async def _trunks(settings: Settings) -> list[Finding]:
    """A trunk that is down is a warning: it may be up when the agent is."""
    try:
        asked = await check_trunks.ask(settings)
    except ImportError:
        return []  # said by _voicecore
    except Exception as error:
        if not isinstance(getattr(error, "code", None), str):
            raise
        return [Finding("trunks", "fail", str(error))]
    return [Finding(f"trunk {name}", "ok" if up else "warn", words) for name, up, words in asked]


async def _server(name: str, url: str, ask: Callable[[], Awaitable[str]]) -> Finding:
    began = time.monotonic()
    try:
        detail = await ask()
    except ServerError as error:
        return Finding(name, "fail", f"{url}: {error}")
    return Finding(name, "ok", f"{url}: {detail}, {(time.monotonic() - began) * 1e3:.0f} ms")


async def _llm(name: str, server: Llm) -> Finding:
    async def ask() -> str:
        async with LlmClient(server) as client:
            pieces = client.reply([Message("user", "Say OK.")], max_tokens=8)
            async with contextlib.aclosing(pieces):
                size = sum([len(p) async for p in pieces if isinstance(p, str)])
        return f"answered {size} characters"

    return await _server(name, server.url, ask)


async def _tts(name: str, server: Tts) -> Finding:
    async def ask() -> str:
        async with TtsClient(server) as client:
            async with contextlib.aclosing(client.speak("OK.")) as chunks:
                size = sum([len(c) async for c in chunks])
        return f"spoke {size / 2 / server.rate:.1f} s at {server.rate} Hz"

    return await _server(name, server.url, ask)


async def _stt(name: str, server: Stt, language: str) -> Finding:
    async def ask() -> str:
        async with SttClient(server, language) as client:
            await client.transcribe(bytes(int(_SPEECH_S * 8_000) * 2), 8_000)
        return f"transcribed {_SPEECH_S:g} s"

    return await _server(name, server.url, ask)


async def _models(settings: Settings) -> list[Finding]:
    """Each model server, and each that would take over."""
    language = settings.agent.language
    asks = [
        *(_llm(_label("llm", i), s) for i, s in enumerate(llms(settings.llm))),
        *(_tts(_label("tts", i), s) for i, s in enumerate(ttss(settings.tts))),
        *(_stt(_label("stt", i), s, language) for i, s in enumerate(stts(settings.stt))),
    ]
    return list(await asyncio.gather(*asks))


def _label(name: str, index: int) -> str:
    return name if not index else f"{name} backup {index}"
