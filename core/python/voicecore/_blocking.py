# SPDX-License-Identifier: GPL-3.0-or-later
"""A blocking native call beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(function: Callable[[], T]) -> T:
    """Runs ``function`` in a thread of its own and waits for its end even when cancelled.

    Sockets and recordings are only known to be closed when it has returned, so a cancellation
    (Ctrl-C) is raised afterwards. ``function`` must be bounded in time. The default executor is
    not used since its idle threads would outlive the engine.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # None only where T is None

    def body() -> None:
        try:
            result, error = function(), None
        except BaseException as exc:
            result, error = None, exc
        loop.call_soon_threadsafe(deliver, result, error)

    thread = threading.Thread(target=body, name="voicecore-call", daemon=True)
    thread.start()
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as exc:
            cancelled = exc
        except BaseException:
            break
    thread.join()
    if cancelled is not None:
        done.exception()
        raise cancelled
    return done.result()
