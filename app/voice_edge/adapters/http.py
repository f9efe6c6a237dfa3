# SPDX-License-Identifier: GPL-3.0-or-later
"""What the three clients share: one connection pool, deadlines, retry, error classes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Self, TypeVar

import aiohttp

from ..settings import Server
from .errors import ServerError, Stage, status_error
from .metrics import Metrics

T = TypeVar("T")

# A refused or broken request is repeated once; a timeout is not, since the caller waits already.
_ATTEMPTS = 2
_RETRY_PAUSE_S = 0.1


class Budget:
    """The deadlines of one request. Time the consumer takes between steps does not count."""

    def __init__(self, server: str, settings: Server) -> None:
        self._server = server
        self._settings = settings
        self._left = settings.total_s
        self.used = 0.0

    async def step(self, work: Awaitable[T], stage: Stage) -> T:
        """Await ``work`` within its stage's deadline and within what is left of the whole."""
        limit = {
            Stage.FIRST_BYTE: self._settings.first_byte_s,
            Stage.BETWEEN_CHUNKS: self._settings.between_chunks_s,
        }[stage]
        if self._left < limit:
            limit, stage = self._left, Stage.TOTAL
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(limit):
                return await work
        except aiohttp.ClientError as error:  # first: one of them is a TimeoutError as well
            raise self._classified(error) from None
        except TimeoutError:
            what = "no answer" if self.used == 0 else "nothing more"
            raise ServerError(
                self._server, stage, f"{what} within {limit:g} s", transient=True
            ) from None
        except OSError:
            raise self._closed() from None
        finally:
            took = loop.time() - began
            self._left = max(0.0, self._left - took)
            self.used += took

    def _closed(self) -> ServerError:
        return ServerError(
            self._server, Stage.CLOSED, "closed the connection early", transient=True
        )

    def _classified(self, error: aiohttp.ClientError) -> ServerError:
        if isinstance(error, aiohttp.ServerTimeoutError):
            detail = f"no connection within {self._settings.connect_s:g} s"
            return ServerError(self._server, Stage.CONNECT, detail, transient=True)
        if isinstance(error, aiohttp.ClientConnectorError):
            detail = f"cannot connect ({error.os_error.strerror or type(error).__name__})"
            return ServerError(self._server, Stage.CONNECT, detail, transient=True)
        if isinstance(
            error,
            (aiohttp.ClientPayloadError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError),
        ):
            return self._closed()
        detail = f"does not speak HTTP as expected ({type(error).__name__})"
        return ServerError(self._server, Stage.PROTOCOL, detail, transient=False)


class ModelServer:
    """Base of the clients: open with ``async with``; one serves all calls."""

    name = "server"

    def __init__(self, settings: Server) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"User-Agent": "voice-edge"}
        if self.settings.api_key_file is not None:
            headers["Authorization"] = f"Bearer {self.settings.api_key_file.reveal()}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.settings.connect_s),
            headers=headers,
            trust_env=False,  # a proxy of the environment is no way to a server on the LAN
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @contextlib.asynccontextmanager
    async def post(
        self, path: str, budget: Budget, **body: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the response has status 200. Nothing of its body was read."""
        if self._session is None:
            raise RuntimeError(f"{type(self).__name__} is used outside its async with")
        # No redirects: the key must not follow one to elsewhere.
        response = await budget.step(
            self._session.post(self.settings.url + path, allow_redirects=False, **body),
            Stage.FIRST_BYTE,
        )
        try:
            if response.status != 200:
                raise status_error(self.name, response.status)
            yield response
        finally:
            # Closing, not releasing: a cut answer must not be read to its end.
            response.close()

    async def probe(self) -> bool:
        """Whether there is a server at all: any answer but a server error counts."""
        if self._session is None:
            return False
        budget = Budget(self.name, self.settings)
        url = self.settings.url + "/v1/models"
        try:
            response = await budget.step(
                self._session.get(url, allow_redirects=False), Stage.FIRST_BYTE
            )
        except ServerError:
            return False
        response.close()
        return response.status < 500

    async def stream(
        self, attempt: Callable[[Budget], AsyncGenerator[T, None]]
    ) -> AsyncGenerator[T, None]:
        """Yield what ``attempt`` yields; repeat it once if it failed before its first item."""
        budget = Budget(self.name, self.settings)
        self.metrics.requests += 1
        started = False
        for turn in range(1, _ATTEMPTS + 1):
            try:
                async with contextlib.aclosing(attempt(budget)) as items:
                    async for item in items:
                        if not started:
                            started = True
                            self.metrics.first_ms.append(budget.used * 1e3)
                        yield item
                self.metrics.total_ms.append(budget.used * 1e3)
                return
            except ServerError as error:
                slow = error.stage in (Stage.FIRST_BYTE, Stage.BETWEEN_CHUNKS, Stage.TOTAL)
                if started or slow or not error.transient or turn == _ATTEMPTS:
                    self.metrics.failures[error.stage] += 1
                    raise
                self.metrics.retries += 1
            except (asyncio.CancelledError, GeneratorExit):
                self.metrics.cancelled += 1
                raise
            await asyncio.sleep(_RETRY_PAUSE_S)
