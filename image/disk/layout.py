# SPDX-License-Identifier: GPL-3.0-or-later
"""The one partition layout of every provider and architecture (docs/image.md draws it)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from image.arch import Arch

MIB = 1 << 20
# Drawn once; fixed so that two builds are the same to the bit. A box gets what must be its own
# (machine id, host keys) on first boot.
NAMESPACE = uuid.UUID("6a4b8f0e-52a9-5c1d-8f1e-3c7d0b1f9e42")

ESP_MIB = 64
BOOT_MIB = 64
ROOT_MIB = 640
DATA_MIB = 64
"""As flashed; grows over the rest of the disk on first boot."""

ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
XBOOTLDR_TYPE = "BC13C2FF-59E6-4262-A352-B275FD6F7172"
VAR_TYPE = "4D21B016-B534-45C2-A9FB-5C16E091FD2D"


@dataclass(frozen=True)
class Partition:
    """A partition; its number is its place in the table, which grub.cfg counts on."""

    name: str
    type_guid: str
    mib: int

    @property
    def guid(self) -> str:
        """Its own GUID."""
        return str(fixed_uuid(f"partition {self.name}")).upper()


def partitions(arch: Arch) -> list[Partition]:
    """In order of their numbers, from 1."""
    return [
        Partition("esp", ESP_TYPE, ESP_MIB),
        Partition("boot-a", XBOOTLDR_TYPE, BOOT_MIB),
        Partition("root-a", arch.root_guid, ROOT_MIB),
        Partition("boot-b", XBOOTLDR_TYPE, BOOT_MIB),
        Partition("root-b", arch.root_guid, ROOT_MIB),
        Partition("data", VAR_TYPE, DATA_MIB),
    ]


def fixed_uuid(name: str) -> uuid.UUID:
    """A UUID that depends on the name only."""
    return uuid.uuid5(NAMESPACE, name)
