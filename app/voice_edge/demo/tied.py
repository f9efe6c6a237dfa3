# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program that gets SIGTERM when its parent dies: ``python tied.py PARENT PROGRAM ARG…``.

A program of its own, run by its path: code between fork and exec is not safe beside other threads,
and this starts in milliseconds because it imports nothing of the package.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h; stays in force across exec


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died in between: no signal would come
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
