# SPDX-License-Identifier: GPL-3.0-or-later
"""The stock Silero model run by onnxruntime: what the engine's own kernel is measured against.

Needs numpy and onnxruntime, which the product does not. The model is `silero_vad.onnx` as pinned
in third_party.toml: the path `python3 -m tools.fetch silero_vad` prints.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
WINDOW = {8000: 256, 16000: 512}
CONTEXT = {8000: 32, 16000: 64}

Samples = NDArray[np.float32]


@cache
def model() -> str:
    """Path of the pinned model file."""
    fetched = subprocess.run(
        [sys.executable, "-m", "tools.fetch", "silero_vad"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return fetched.stdout.strip()


class Stock:
    """The model, on one thread."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            model(), options, providers=["CPUExecutionProvider"]
        )

    def probabilities(self, samples: Samples, rate: int) -> Samples:
        """Speech probability of each whole window of `samples` [n], values in [-1, 1)."""
        size = WINDOW[rate]
        context = np.zeros(CONTEXT[rate], np.float32)
        state = np.zeros((2, 1, 128), np.float32)
        result = np.zeros(len(samples) // size, np.float32)
        for k in range(len(result)):
            window = samples[k * size : (k + 1) * size]
            feed = {"input": np.concatenate([context, window])[None], "state": state}
            output, state = self._session.run(None, {**feed, "sr": np.array(rate)})
            result[k] = output[0, 0]
            context = window[-CONTEXT[rate] :]
        return result
