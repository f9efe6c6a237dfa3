# SPDX-License-Identifier: GPL-3.0-or-later
"""Tie this process to its parent, so that a killed demo leaves no server behind."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGTERM when the parent ends (Linux; elsewhere nothing is done).

    ``parent`` is the process expected as parent: if it is gone already the signal would never come,
    so the process ends here.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if parent is not None and os.getppid() != parent:
        os._exit(1)
