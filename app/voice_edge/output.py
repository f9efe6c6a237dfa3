# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a command whose reader has gone or whose disk is full: a word on it, and no traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable

FAILED = 1
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)


def finished(command: Callable[[], int]) -> int:
    """Run ``command`` and see its output off; the exit code."""
    try:
        try:
            code = command()
        except SystemExit as done:  # argparse
            code = done.code if isinstance(done.code, int) else 0 if done.code is None else FAILED
        _flush()
        return code
    except OSError as error:
        # What is written nowhere has no file name; everything else is not about output.
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        _give_up(error)
        return FAILED


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _give_up(error: OSError) -> None:
    # The interpreter would flush once more as it ends, and complain.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
    # Who closes a pipe has seen enough, and need not be told.
    if error.errno != errno.EPIPE and sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"the output cannot be written: {error.strerror}", file=sys.stderr, flush=True)
