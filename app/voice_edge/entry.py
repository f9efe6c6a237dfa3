# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the command begins: Ctrl-C while modules are still being loaded ends it without a traceback."""

import signal
import sys


def main() -> int:
    """Load the command line and run it; returns the exit code."""
    # Nothing is open yet, so the system's own way of ending is the clean one.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as command
    from .output import finished

    signal.signal(signal.SIGINT, before)
    return finished(command)


if __name__ == "__main__":
    sys.exit(main())
