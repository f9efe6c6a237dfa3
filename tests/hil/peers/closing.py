# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers that `with` closes."""

from __future__ import annotations

from typing import Self


class Closing:
    """A peer whose `close` gives back its sockets and threads."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
