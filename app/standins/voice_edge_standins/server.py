# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP application and its life: models warm, port open, port file written, clean end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from . import llm, stt, tts
from .errors import error_middleware
from .script import Script

HOST = "127.0.0.1"  # stand-ins are for this machine only, unless a test on real hardware says so


@dataclass(frozen=True)
class Models:
    """What is served."""

    recogniser: stt.Recogniser
    synthesiser: tts.Synthesiser
    script: Script


def make_app(models: Models) -> web.Application:
    """The application; its two worker threads end with it."""
    app = web.Application(
        middlewares=[error_middleware], client_max_size=stt.MAX_FILE + 1024 * 1024
    )
    hearing = ThreadPoolExecutor(1, thread_name_prefix="stt")
    speaking = ThreadPoolExecutor(1, thread_name_prefix="tts")
    created = int(time.time())

    async def end_pools(_: web.Application) -> None:
        hearing.shutdown(wait=False, cancel_futures=True)
        speaking.shutdown(wait=False, cancel_futures=True)

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def list_models(_: web.Request) -> web.Response:
        head = {"object": "model", "created": created, "owned_by": "voice-edge-standins"}
        data: list[dict[str, object]] = [
            {"id": llm.MODEL, **head},
            {"id": stt.MODEL, **head},
            {
                "id": tts.MODEL,
                **head,
                "sample_rate": models.synthesiser.rate,
                "voices": [tts.VOICE],
            },
        ]
        return web.json_response({"object": "list", "data": data})

    app.on_cleanup.append(end_pools)
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", list_models)
    app.router.add_post("/v1/chat/completions", llm.ChatHandler(models.script).handle)
    app.router.add_post("/v1/audio/speech", tts.SpeechHandler(models.synthesiser, speaking).handle)
    app.router.add_post(
        "/v1/audio/transcriptions", stt.TranscriptionHandler(models.recogniser, hearing).handle
    )
    return app


def write_port_file(path: Path, port: int) -> None:
    """Write the port in one step, so that a reader never sees half a number."""
    half = path.with_name(f"{path.name}.{os.getpid()}.part")
    half.write_text(f"{port}\n", encoding="ascii")
    half.replace(path)


def remove_port_file(path: Path) -> None:
    path.unlink(missing_ok=True)


async def serve(models: Models, port: int, port_file: Path | None, host: str = HOST) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one. Raises OSError if it is taken."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_app(models), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound = int(runner.addresses[0][1])
        print(f"stand-ins listen on http://{host}:{bound}", flush=True)
        if port_file is not None:
            write_port_file(port_file, bound)
        await stop.wait()
    finally:
        if port_file is not None:
            remove_port_file(port_file)
        await runner.cleanup()
