# SPDX-License-Identifier: GPL-3.0-or-later
"""A conversation on one machine: ``voice-edge demo``. ``main`` takes the options' list."""

from .run import main

__all__ = ["main"]
