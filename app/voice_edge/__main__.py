# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m voice_edge``."""

import sys

from .entry import main

sys.exit(main())
