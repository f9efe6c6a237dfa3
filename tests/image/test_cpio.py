# SPDX-License-Identifier: GPL-3.0-or-later
"""The cpio archive, read back by the kernel's own rules (driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

import stat
from dataclasses import dataclass

from image.disk.cpio import Archive

HEAD = 110


@dataclass(frozen=True)
class Entry:
    inode: int
    mode: int
    links: int
    device: tuple[int, int]
    content: bytes


def unpack(data: bytes) -> dict[str, Entry]:
    """What a kernel finds; AssertionError where it would stop."""
    found: dict[str, Entry] = {}
    at = 0
    while True:
        assert at % 4 == 0
        assert data[at : at + 6] == b"070701"
        numbers = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        inode, mode, uid, gid, links, mtime, size, _, _, major, minor, name_size, check = numbers
        name = data[at + HEAD : at + HEAD + name_size]
        assert name.endswith(b"\0")
        at += HEAD + name_size
        at += -at % 4
        content = data[at : at + size]
        at += size + -size % 4
        if name == b"TRAILER!!!\0":
            assert at == len(data)
            return found
        assert (uid, gid, mtime, check) == (0, 0, 0, 0)
        found[name[:-1].decode()] = Entry(inode, mode, links, (major, minor), content)


def sample() -> Archive:
    archive = Archive()
    archive.file("init", b"#!/bin/sh\n", executable=True)
    archive.file("etc/modules", b"ext4\n")
    archive.link("bin/sh", "busybox")
    archive.device("dev/console", 5, 1)
    return archive


def test_everything_is_read_back() -> None:
    found = unpack(sample().pack())
    assert found["init"].content == b"#!/bin/sh\n"
    assert found["init"].mode == stat.S_IFREG | 0o755
    assert found["etc/modules"].mode == stat.S_IFREG | 0o644
    assert found["bin/sh"].mode == stat.S_IFLNK | 0o777
    assert found["bin/sh"].content == b"busybox"
    assert found["dev/console"].mode == stat.S_IFCHR | 0o600
    assert found["dev/console"].device == (5, 1)


def test_a_folder_comes_before_what_is_in_it() -> None:
    names = list(unpack(sample().pack()))
    assert {"bin", "dev", "etc"} <= set(names)
    for name in names:
        parent = name.rpartition("/")[0]
        assert not parent or names.index(parent) < names.index(name)


def test_inodes_are_their_own() -> None:
    inodes = [entry.inode for entry in unpack(sample().pack()).values()]
    assert len(set(inodes)) == len(inodes), "files of one inode are links of each other"


def test_order_of_adding_does_not_matter() -> None:
    other = Archive()
    other.device("dev/console", 5, 1)
    other.link("bin/sh", "busybox")
    other.file("etc/modules", b"ext4\n")
    other.file("init", b"#!/bin/sh\n", executable=True)
    assert other.pack() == sample().pack()


def test_every_length_is_padded() -> None:
    for length in range(9):
        archive = Archive()
        archive.file("f" * (length + 1), b"x" * length)
        archive.file("z", b"after")
        assert unpack(archive.pack())["z"].content == b"after"
