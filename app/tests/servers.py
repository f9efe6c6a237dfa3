# SPDX-License-Identifier: GPL-3.0-or-later
"""Model servers for the adapters' tests: real HTTP on loopback, as well or as ill as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from voice_edge.settings import Llm, Secret, Stt, Tts


@dataclass
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """What a handler answers with: bytes when it likes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, kind: str, status: int = 200, extra: str = "") -> None:
        await self.raw(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{extra}"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def sse(self, *pieces: str, done: bool = True, pause_s: float = 0.0) -> None:
        """A regular streamed chat completion."""
        await self.head("text/event-stream")
        for piece in pieces:
            await self.chunk(delta(piece))
            await asyncio.sleep(pause_s)
        if done:
            await self.chunk(b"data: [DONE]\n\n")
        await self.end()

    async def whole(self, kind: str, body: bytes, status: int = 200) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.raw(head.encode() + body)

    def abort(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


def delta(text: str, **more: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, **more}]}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


Handler = Callable[[Received, Wire], Awaitable[None]]


class Server:
    """Runs ``handler`` for each request; ``requests`` keeps them all."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers
        self.requests: list[Received] = []
        self.port = 0
        self.closed_by_client = 0
        self.connections = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[Any]] = set()
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                request = await self._read(reader)
                self.requests.append(request)
                handler = self._handlers[min(len(self.requests), len(self._handlers)) - 1]
                work = asyncio.create_task(self._answer(handler, request, writer))
                gone = asyncio.create_task(reader.read(1))
                await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    self.closed_by_client += 1
                work.cancel()
                gone.cancel()
                await asyncio.gather(work, gone, return_exceptions=True)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(
        self, handler: Handler, request: Received, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await handler(request, Wire(writer))
        except ConnectionError:
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.strip().split("\r\n")
        headers = {k.lower(): v for k, _, v in (r.partition(": ") for r in rest)}
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Received(line.split(" ")[1], headers, body)

    # --- settings that point here, with short deadlines ---

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def llm(self, **more: Any) -> Llm:
        return Llm(**{**DEADLINES, "url": self.url, "model": "m", **more})

    def tts(self, **more: Any) -> Tts:
        return Tts(**{**DEADLINES, "url": self.url, "model": "m", "voice": "v", **more})

    def stt(self, **more: Any) -> Stt:
        return Stt(**{**DEADLINES, "url": self.url, "model": "m", **more})


DEADLINES: dict[str, Any] = {
    "api_key_file": Secret("sesame-77"),
    "connect_s": 1.0,
    "first_byte_s": 5.0,
    "between_chunks_s": 3.0,
    "total_s": 20.0,
}
