# SPDX-License-Identifier: GPL-3.0-or-later
"""A release channel on loopback, over HTTPS, that fails as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

COMPATIBLE = "voice-edge-x86_64-layout1"
CONTENT = b"".join(f"block {n:>6}\n".encode() for n in range(200_000))  # 2.6 MB


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server at 127.0.0.1 and of a client that trusts it."""
    key, cert = folder / "https.key.pem", folder / "https.cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", str(key), "-out", str(cert), "-days", "3650", "-subj", "/CN=updates",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))


def entry(version: str = "1.1.0", content: bytes = CONTENT, **more: Any) -> dict[str, Any]:
    return {
        "version": version,
        "compatible": COMPATIBLE,
        "url": f"{version}.raucb",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        **more,
    }


def index(*entries: dict[str, Any], serial: int = 7, channel: str = "stable") -> bytes:
    tree = {"format": 1, "channel": channel, "serial": serial, "releases": list(entries)}
    return json.dumps(tree).encode()


class Channel:
    """``cuts`` are byte counts after which an answer breaks off, one for each; ``slow_s`` is between pieces."""

    def __init__(self) -> None:
        self.index = index(entry())
        self.content = CONTENT
        self.cuts: list[int] = []
        self.slow_s = 0.0
        self.ranges = True
        self.status = 200
        self.asked: list[str] = []
        self.sent = 0
        self.url = ""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers.get("Range", "")
        self.asked.append(f"{request.path} {asked}".strip())
        if self.status != 200:
            return web.Response(status=self.status)
        if request.path.endswith(".json"):
            return web.Response(body=self.index)
        start = int(asked[6:-1]) if asked and self.ranges else 0
        answer = web.StreamResponse(status=206 if start else 200)
        if start:
            total = len(self.content)
            answer.headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        answer.content_length = len(self.content) - start
        await answer.prepare(request)
        left = self.cuts.pop(0) if self.cuts else len(self.content)
        for at in range(start, len(self.content), 1 << 16):
            piece = self.content[at : at + min(1 << 16, left)]
            if self.slow_s:
                await asyncio.sleep(self.slow_s)
            await answer.write(piece)
            self.sent += len(piece)
            left -= len(piece)
            if left <= 0 and at + len(piece) < len(self.content):
                assert request.transport is not None
                request.transport.close()  # what was written still goes out
                break
        return answer


@contextlib.asynccontextmanager
async def serving(channel: Channel, tls: ssl.SSLContext) -> AsyncIterator[Channel]:
    app = web.Application()
    app.router.add_get("/{name}", channel._answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    channel.url = f"https://127.0.0.1:{port}"
    try:
        yield channel
    finally:
        await runner.cleanup()
