# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bundle's program starts with. Needs nothing of this package: it is frozen alone."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SEARCH = "LD_LIBRARY_PATH"


def restore(environment: MutableMapping[str, str]) -> None:
    """Take back what PyInstaller's loader did to the path of libraries.

    This process has it by now; a program of the system that it starts, such as systemctl, would load the bundle's
    OpenSSL instead of its own.
    """
    original = environment.pop(f"{SEARCH}_ORIG", None)
    if original is None:
        environment.pop(SEARCH, None)
    else:
        environment[SEARCH] = original


if __name__ == "__main__":
    restore(os.environ)
    from voice_edge.cli import main

    sys.exit(main())
