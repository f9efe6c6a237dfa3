# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's environment block: 1024 bytes that hold the boot counters (GRUB manual, "The GRUB environment block").

It is rewritten in place and flushed. A rename would not be safer: FAT has no atomic one, and GRUB itself
writes in place. All values fit into the first sector, which a disk writes whole or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

SIZE = 1024
SIGNATURE = "# GRUB Environment Block\n"


class DamagedError(Exception):
    """The file is not an environment block; the text says why."""


def decode(block: bytes) -> dict[str, str]:
    """Raises :class:`DamagedError`."""
    if len(block) != SIZE:
        raise DamagedError(f"has {len(block)} bytes, not {SIZE}")
    if not block.startswith(SIGNATURE.encode()):
        raise DamagedError("does not begin with GRUB's signature")
    values: dict[str, str] = {}
    try:
        lines = block.decode("ascii")[len(SIGNATURE) :].rstrip("#").split("\n")
    except UnicodeDecodeError:
        raise DamagedError("holds bytes that are not text") from None
    if lines.pop():
        raise DamagedError("its last line has no end")
    for line in lines:
        name, sign, value = line.partition("=")
        if not sign or not name.replace("_", "").isalnum() or not value.isprintable():
            raise DamagedError("holds a line that is not NAME=value")
        values[name] = value
    return values


def encode(values: Mapping[str, str]) -> bytes:
    """Raises ValueError when it does not fit or a value cannot stand in a block."""
    for name, value in values.items():
        if not value.isascii() or not value.isprintable() or "\\" in value:
            raise ValueError(f"{name}: value cannot stand in an environment block")
    block = (SIGNATURE + "".join(f"{n}={v}\n" for n, v in values.items())).encode()
    if len(block) > SIZE:
        raise ValueError(f"an environment block holds {SIZE} bytes, not {len(block)}")
    return block.ljust(SIZE, b"#")


def read(path: Path) -> dict[str, str]:
    """Raises :class:`DamagedError` or OSError."""
    return decode(path.read_bytes())


def write(path: Path, values: Mapping[str, str]) -> None:
    """In place, flushed, and read again. Raises OSError, also when the disk did not keep it."""
    block = encode(values)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(handle, block, 0)
        os.ftruncate(handle, SIZE)
        os.fsync(handle)
    finally:
        os.close(handle)
    if path.read_bytes() != block:
        raise OSError(5, "was written but reads back differently", str(path))


@contextlib.contextmanager
def locked(run: Path) -> Iterator[None]:
    """Our commands read, change and write; one at a time."""
    run.mkdir(parents=True, exist_ok=True)
    handle = os.open(run / "grubenv.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
