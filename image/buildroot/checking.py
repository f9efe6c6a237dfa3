# SPDX-License-Identifier: GPL-3.0-or-later
"""What every check of the Buildroot provider has: how it fails, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from image.run import BuildError

Check = tuple[str, Callable[[], str], str]
"""Its name; what returns the detail to print or raises BuildError; the remedy."""


class NotHere(Exception):
    """What a check compares with has not been built on this machine; the text says what would."""


class Subject(Protocol):
    """What is verified (verify.py): the checkout, and the configurations that it makes of ours."""

    @property
    def tree(self) -> Path:
        """The Buildroot checkout."""

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """Symbols of Buildroot's .config, by architecture."""

    def symbols(self, arch: str) -> set[str]:
        """Every symbol that is on for ``arch``, Buildroot's and the kernel's."""


def none_of(faults: list[str]) -> None:
    """Raise BuildError with every fault on a line of its own, if there is one."""
    if faults:
        raise BuildError("\n           ".join(["", *faults]) if len(faults) > 1 else faults[0])
