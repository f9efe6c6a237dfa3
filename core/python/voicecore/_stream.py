# SPDX-License-Identifier: GPL-3.0-or-later
"""A bounded queue of one producer in the event loop and one consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Stream(AsyncIterator[T], Generic[T]):
    """Items put in by a callback of the loop, taken out by one task.

    `asyncio.Queue` cannot be closed before Python 3.13 and knows no item that may not be lost.
    """

    def __init__(self, limit: int) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Nothing more will be put in."""
        return self._closed

    def put(self, item: T, *, always: bool = False) -> bool:
        """Adds ``item``; False when full, and then it was not taken unless ``always``."""
        full = len(self._items) >= self._limit
        if self._closed or (full and not always):
            return False
        self._items.append(item)
        self._wake()
        return not full

    def close(self) -> None:
        """Ends the iteration once what is inside has been taken."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("a second task waits on a stream that has one consumer")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.popleft()
