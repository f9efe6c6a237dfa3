# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a demo could not be held."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on; the message says where and what helps."""
