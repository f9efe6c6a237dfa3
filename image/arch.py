# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the two architectures; nothing else in image/ names one."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """One target architecture."""

    name: str
    """As `uname -m` says it."""
    debian: str
    """Debian's name of it."""
    efi_file: str
    """What firmware starts from the ESP when nothing else is set up (UEFI specification, 3.5.1.1)."""
    grub_format: str
    console: str
    """Serial console of servers of this architecture."""
    qemu_user: str
    """QEMU's user-mode emulator that runs its programs on another machine."""
    root_guid: str
    """GPT partition type of its root file system (UAPI Discoverable Partitions Specification)."""

    @property
    def native(self) -> bool:
        """Whether this machine runs its programs without emulation."""
        return platform.machine() == self.name


ARCHES = {
    "x86_64": Arch(
        name="x86_64",
        debian="amd64",
        efi_file="BOOTX64.EFI",
        grub_format="x86_64-efi",
        console="ttyS0,115200",
        qemu_user="qemu-x86_64",
        root_guid="4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
    ),
    "aarch64": Arch(
        name="aarch64",
        debian="arm64",
        efi_file="BOOTAA64.EFI",
        grub_format="arm64-efi",
        console="ttyAMA0,115200",
        qemu_user="qemu-aarch64",
        root_guid="B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
    ),
}
