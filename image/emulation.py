# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the other architecture run here, under QEMU's user emulation."""

from __future__ import annotations

from pathlib import Path

from image.arch import Arch
from image.run import BuildError, run

QEMU_CPU = "cortex-a57"
"""QEMU's default CPU emulates pointer authentication, which costs most of the time."""


def environment(arch: Arch) -> dict[str, str]:
    """What programs of ``arch`` need around them here."""
    return {} if arch.native else {"QEMU_CPU": QEMU_CPU}


def emulate(arch: Arch) -> None:
    """Have the kernel start programs of ``arch`` under QEMU. Needs root; stays until the next boot."""
    entry = Path("/proc/sys/fs/binfmt_misc") / arch.qemu_user
    if entry.exists():
        return
    remedy = "install qemu-user-static and binfmt-support, and run this as root"
    try:
        if not (entry.parent / "register").exists():
            run(["mount", "-t", "binfmt_misc", "binfmt_misc", entry.parent])
        run(["update-binfmts", "--enable", arch.qemu_user])
    except BuildError as error:
        raise BuildError(
            f"programs of {arch.name} cannot be run here: {error}\n{remedy}"
        ) from error
    if not entry.exists():
        raise BuildError(f"programs of {arch.name} cannot be run here: no {entry}; {remedy}")
