# SPDX-License-Identifier: GPL-3.0-or-later
"""A cpio archive in `newc` form, the same bytes for the same content.

Kernel documentation: driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field


@dataclass
class Archive:
    """Files to be, by path without a leading slash. Owner is root, time is 0, order is by path."""

    entries: dict[str, tuple[int, bytes, tuple[int, int]]] = field(default_factory=dict)

    def directory(self, path: str) -> None:
        """Add a folder and those above it."""
        while path:
            self.entries.setdefault(path, (stat.S_IFDIR | 0o755, b"", (0, 0)))
            path = path.rpartition("/")[0]

    def file(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Add a regular file and its folders."""
        self.directory(path.rpartition("/")[0])
        self.entries[path] = (stat.S_IFREG | (0o755 if executable else 0o644), content, (0, 0))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.directory(path.rpartition("/")[0])
        self.entries[path] = (stat.S_IFLNK | 0o777, target.encode(), (0, 0))

    def device(self, path: str, major: int, minor: int) -> None:
        """Add a character device: the console must exist before /dev is mounted."""
        self.directory(path.rpartition("/")[0])
        self.entries[path] = (stat.S_IFCHR | 0o600, b"", (major, minor))

    def pack(self) -> bytes:
        """Return the archive."""
        out = bytearray()
        for inode, path in enumerate(sorted(self.entries), 1):
            mode, content, device = self.entries[path]
            out += _entry(inode, path, mode, content, device)
        return bytes(out + _entry(0, "TRAILER!!!", 0, b"", (0, 0)))


def _entry(inode: int, path: str, mode: int, content: bytes, device: tuple[int, int]) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + name
    head += b"\0" * (-len(head) % 4)
    return head + content + b"\0" * (-len(content) % 4)
