# SPDX-License-Identifier: GPL-3.0-or-later
"""Voice activity as an experienced Python team runs it: the stock model in a thread pool, a session per thread.

onnxruntime lets go of the interpreter's lock while it works, so the threads do run side by side. Every
session has one thread of its own and does not spin (docs: onnxruntime, thread management).
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from core.reference.silero import CONTEXT, model

Window = NDArray[np.float32]


def session() -> onnxruntime.InferenceSession:
    """The stock model on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])


class State:
    """What the network remembers of one caller."""

    def __init__(self, rate: int) -> None:
        self.context = np.zeros(CONTEXT[rate], np.float32)
        self.memory = np.zeros((2, 1, 128), np.float32)
        self.rate = np.array(rate)


class Pool:
    """Threads with a session each; a caller's windows must be asked for one after the other."""

    def __init__(self, threads: int = os.cpu_count() or 1) -> None:
        self._own = threading.local()
        self._threads = ThreadPoolExecutor(threads, "vad", self._prepare)

    def _prepare(self) -> None:
        self._own.session = session()

    def _run(self, state: State, window: Window) -> np.float32:
        # The model wants the end of the window before in front of each.
        samples = np.concatenate([state.context, window])[None]
        feed = {"input": samples, "state": state.memory, "sr": state.rate}
        output, state.memory = self._own.session.run(None, feed)
        state.context = window[-len(state.context) :]
        return np.float32(output[0, 0])

    def probability(self, state: State, window: Window) -> np.float32:
        """In the thread that asks: where there is one caller, another thread would only be waited for."""
        if not hasattr(self._own, "session"):
            self._prepare()
        return self._run(state, window)

    def submit(self, state: State, window: Window) -> Future[np.float32]:
        """The probability of speech, later."""
        return self._threads.submit(self._run, state, window)

    def close(self) -> None:
        """Waits for what was asked for."""
        self._threads.shutdown()
