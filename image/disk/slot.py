# SPDX-License-Identifier: GPL-3.0-or-later
"""The two images of a slot: root (erofs, its dm-verity tree behind it) and boot (kernel, initrd, hash)."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from image.disk.layout import BOOT_MIB, MIB, ROOT_MIB, fixed_uuid
from image.run import BuildError
from image.toolroot import ToolRoot

BLOCK = 4096


@dataclass(frozen=True)
class Verity:
    """What opens the root: hash of the tree's top in hex, salt in hex, number of data blocks of 4096 bytes."""

    root_hash: str
    salt: str
    blocks: int

    @property
    def arguments(self) -> str:
        """Words for the kernel command line, read by the initrd."""
        return f"voice.verity={self.root_hash} voice.salt={self.salt} voice.blocks={self.blocks}"


def make_root(tree: str, image: str, tools: ToolRoot, *, epoch: int) -> Verity:
    """Pack folder ``tree`` of the work folder into ``image``: erofs, hash tree behind it."""
    path = tools.work / image
    path.unlink(missing_ok=True)
    # lz4hc in small clusters: an early change leaves most later blocks as they were, which adaptive updates live on.
    options = ["-zlz4hc,12", "-C16384", f"-T{epoch}", f"-U{fixed_uuid('root')}"]
    tools.run(["mkfs.erofs", "--quiet", *options, image, tree])
    blocks = -(-path.stat().st_size // BLOCK)
    with path.open("r+b") as file:
        file.truncate(blocks * BLOCK)
    # The salt need not be secret, only fixed for a content: dm-verity's protection is the hash of the top.
    salt = fixed_uuid(f"salt {epoch}").hex * 2
    said = tools.run(
        ["veritysetup", "format", image, image, f"--hash-offset={blocks * BLOCK}", f"--salt={salt}",
         f"--uuid={fixed_uuid('verity')}", f"--data-blocks={blocks}", "--data-block-size=4096",
         "--hash-block-size=4096"]
    )  # fmt: skip
    found = re.search(r"Root hash:\s+([0-9a-f]{64})", said)
    if found is None:
        raise BuildError(f"veritysetup printed no root hash:\n{said}")
    _fits(path, ROOT_MIB, "root")
    return Verity(found[1], salt, blocks)


def make_boot(
    kernel: Path,
    initrd: bytes,
    verity: Verity,
    version: str,
    image: str,
    tools: ToolRoot,
    *,
    epoch: int,
) -> None:
    """Pack kernel, initrd and the slot's arguments into ``image``.

    A squashfs with gzip: GRUB reads it, and knows no zstd in it.
    """
    folder = tools.work / "boot"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copyfile(kernel, folder / "vmlinuz")
    (folder / "initrd.img").write_bytes(initrd)
    (folder / "slot.cfg").write_text(
        f'set slot_version="{version}"\nset slot_args="{verity.arguments}"\n'
    )
    (tools.work / image).unlink(missing_ok=True)
    options = ["-comp", "gzip", "-all-root", "-no-xattrs", "-no-progress", "-quiet", "-noappend",
               "-all-time", str(epoch), "-mkfs-time", str(epoch)]  # fmt: skip
    tools.run(["mksquashfs", "boot", image, *options])
    _fits(tools.work / image, BOOT_MIB, "boot")


def _fits(path: Path, mib: int, what: str) -> None:
    size = path.stat().st_size
    if size > mib * MIB:
        raise BuildError(
            f"the {what} image has {size / MIB:.0f} MiB, its partition {mib}: see image/disk/layout.py"
        )
