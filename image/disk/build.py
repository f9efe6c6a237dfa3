# SPDX-License-Identifier: GPL-3.0-or-later
"""From a root tree to the disk: what comes after a provider, the same for all of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from image.arch import Arch
from image.disk import grub, initrd, kernel, layout, slot
from image.disk.layout import MIB, fixed_uuid
from image.toolroot import ToolRoot

FIRST_MIB = 1
"""Where the first partition begins: the table and alignment go before it."""


@dataclass(frozen=True)
class Parts:
    """What a provider hands over, all below the tools' work folder: root tree, unpacked boot packages."""

    root: Path
    unpacked: Path


def build_disk(parts: Parts, arch: Arch, version: str, tools: ToolRoot, *, epoch: int) -> Path:
    """Make slot images, ESP and the raw disk; returns the disk's path. Times are ``epoch``, a Unix time."""
    made = kernel.prepare(parts.unpacked, tools, "kernel")
    modules = parts.root / "usr/lib/modules"
    shutil.rmtree(modules, ignore_errors=True)
    shutil.copytree(made.modules / "usr/lib/modules", modules, symlinks=True)
    packed = initrd.build(parts.root, parts.unpacked / "usr/bin/busybox", made, arch, tools)
    verity = slot.make_root(str(parts.root.relative_to(tools.work)), "root.img", tools, epoch=epoch)
    slot.make_boot(made.image, packed, verity, version, "boot.img", tools, epoch=epoch)
    _make_esp(arch, parts.unpacked, tools, epoch=epoch)
    _make_data(tools, epoch=epoch)
    return _make_disk(arch, tools)


def _make_esp(arch: Arch, unpacked: Path, tools: ToolRoot, *, epoch: int) -> None:
    folder = tools.work / "esp"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "EFI/BOOT").mkdir(parents=True)
    (folder / "grub").mkdir()
    (folder / "EFI/BOOT" / arch.efi_file).write_bytes(grub.make_program(arch, unpacked, tools))
    (folder / "grub/grub.cfg").write_bytes(grub.script(arch))
    (folder / "grub/grubenv").write_bytes(grub.environment(grub.FIRST_ENVIRONMENT))
    image = tools.work / "esp.img"
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(layout.ESP_MIB * MIB)
    times = {"SOURCE_DATE_EPOCH": str(epoch)}
    tools.run(
        ["mkfs.vfat", "-F", "32", "-n", "ESP", "-i", "0ed6e5b0", "--invariant", "esp.img"],
        env=times,
    )
    names = sorted(path.name for path in folder.iterdir())
    for path in [folder, *folder.rglob("*")]:
        _touch(path, epoch)
    tools.run(
        ["mcopy", "-i", "esp.img", "-s", "-m", *(f"esp/{name}" for name in names), "::/"], env=times
    )


def _touch(path: Path, epoch: int) -> None:
    os.utime(path, (epoch, epoch))


def _make_data(tools: ToolRoot, *, epoch: int) -> None:
    folder = tools.work / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _touch(folder, epoch)
    (tools.work / "data.img").unlink(missing_ok=True)
    # mke2fs takes its own times from SOURCE_DATE_EPOCH; identity and hash seed are fixed here.
    tools.run(
        ["mke2fs", "-q", "-t", "ext4", "-L", "data", "-U", str(fixed_uuid("data")), "-E",
         f"hash_seed={fixed_uuid('data hash')},root_owner=0:0,lazy_itable_init=0", "-O", "^metadata_csum_seed",
         "-d", "data", "data.img", f"{layout.DATA_MIB}M"],
        env={"SOURCE_DATE_EPOCH": str(epoch), "E2FSPROGS_FAKE_TIME": str(epoch)},
    )  # fmt: skip


def _make_disk(arch: Arch, tools: ToolRoot) -> Path:
    disk = tools.work / "disk.img"
    disk.unlink(missing_ok=True)
    table = layout.partitions(arch)
    total = FIRST_MIB + sum(partition.mib for partition in table) + 1
    with disk.open("wb") as file:
        file.truncate(total * MIB)
    lines = ["label: gpt", f"label-id: {fixed_uuid('disk')}", "first-lba: 34"]
    contents = {"esp": "esp.img", "boot-a": "boot.img", "root-a": "root.img", "data": "data.img"}
    start = FIRST_MIB
    with disk.open("r+b") as file:
        for partition in table:
            lines.append(
                f"start={start * MIB // 512}, size={partition.mib * MIB // 512}, type={partition.type_guid}, "
                f'uuid={partition.guid}, name="{partition.name}"'
            )
            if partition.name in contents:
                _copy_sparse(tools.work / contents[partition.name], file, start * MIB)
            start += partition.mib
    tools.run(
        ["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "disk.img"],
        stdin="\n".join(lines).encode(),
    )
    return disk


def _copy_sparse(source: Path, file: BinaryIO, offset: int) -> None:
    """Leave holes where ``source`` is zero: .bmap and qcow2 then carry only what is used."""
    zero = bytes(MIB)
    with source.open("rb") as image:
        while block := image.read(MIB):
            if block != zero[: len(block)]:
                file.seek(offset)
                file.write(block)
            offset += len(block)
