# SPDX-License-Identifier: GPL-3.0-or-later
"""The error of a single value."""

from __future__ import annotations


class BadValueError(Exception):
    """``quotes`` says that ``what`` shows the value itself, which must not happen to a private one."""

    def __init__(self, what: str, remedy: str, *, quotes: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.quotes = quotes
