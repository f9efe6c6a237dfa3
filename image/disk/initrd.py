# SPDX-License-Identifier: GPL-3.0-or-later
"""The initrd: the slot's root through dm-verity, data over it, and rescue on the console."""

from __future__ import annotations

import re
from pathlib import Path

from image.arch import Arch
from image.disk.cpio import Archive
from image.disk.kernel import Kernel, closure
from image.run import BuildError
from image.toolroot import ToolRoot

INIT = Path(__file__).resolve().parent / "initrd" / "init"
PROGRAMS = ("usr/sbin/dmsetup", "usr/sbin/e2fsck", "usr/sbin/mke2fs")
MODULES = (
    "crc32c_generic",
    "dm_verity",
    "erofs",
    "ext4",
    "overlay",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "loop",
)
"""Loaded by name, in this order: libcrc32c looks for its algorithm when it is loaded."""
DISKS = (
    "virtio_pci", "virtio_blk", "virtio_scsi", "nvme", "ahci", "sd_mod", "xhci_pci", "ehci_pci",
    "usb_storage", "uas", "megaraid_sas", "mpt3sas", "mpi3mr", "aacraid", "smartpqi", "hpsa", "hisi_sas_v3_hw",
    "vmd", "mmc_block", "sdhci_pci",
)  # fmt: skip
"""Loaded where the hardware names them (modalias)."""
OPTIONAL = {
    "hisi_sas_v3_hw",
    "vmd",
    "megaraid_sas",
    "hpsa",
    "smartpqi",
    "aacraid",
    "mpi3mr",
    "mpt3sas",
    "uas",
}


def build(root: Path, busybox: Path, kernel: Kernel, arch: Arch, tools: ToolRoot) -> bytes:
    """Return the initrd as compressed cpio. ``root`` is the root tree, which gives the programs and their libraries."""
    archive = Archive()
    for folder in ("proc", "sys", "dev", "run", "sysroot", "data", "tmp", "etc"):
        archive.directory(folder)
    archive.device("dev/console", 5, 1)
    archive.file("init", INIT.read_bytes(), executable=True)
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    for library in _libraries(root, busybox, tools):
        # None with Debian's, which is static; Buildroot's shares the root's.
        archive.file(
            f"lib/{library.name}", _resolve(root, str(library)).read_bytes(), executable=True
        )
    archive.link("bin/sh", "busybox")
    archive.link("bin/modprobe", "busybox")
    archive.link("lib64", "lib")
    for program in PROGRAMS:
        _add_program(archive, root, program, tools)
    _add_modules(archive, kernel)
    packed = archive.pack()
    # --single-thread: the same bytes whatever the number of cores.
    (tools.work / "initrd.cpio").write_bytes(packed)
    tools.run(["zstd", "-q", "-f", "-19", "--single-thread", "initrd.cpio", "-o", "initrd.img"])
    return (tools.work / "initrd.img").read_bytes()


def _add_modules(archive: Archive, kernel: Kernel) -> None:
    base = f"lib/modules/{kernel.release}"
    names = (*MODULES, *(name for name in DISKS if name not in OPTIONAL or _has(kernel, name)))
    for path in closure(kernel, names):
        archive.file(f"{base}/{path}", (kernel.module_folder / path).read_bytes())
    for index in (
        "modules.dep",
        "modules.alias",
        "modules.softdep",
        "modules.builtin",
        "modules.symbols",
    ):
        archive.file(f"{base}/{index}", (kernel.module_folder / index).read_bytes())
    archive.file("etc/modules", ("\n".join(MODULES) + "\n").encode())


def _has(kernel: Kernel, name: str) -> bool:
    return any(
        path.name.split(".")[0].replace("-", "_") == name
        for path in kernel.module_folder.rglob("*.ko")
    )


def _add_program(archive: Archive, root: Path, path: str, tools: ToolRoot) -> None:
    source = _resolve(root, path)
    archive.file(f"bin/{Path(path).name}", source.read_bytes(), executable=True)
    for library in _libraries(root, source, tools):
        archive.file(
            f"lib/{library.name}", _resolve(root, str(library)).read_bytes(), executable=True
        )


def _libraries(root: Path, program: Path, tools: ToolRoot) -> list[Path]:
    """Every shared library and the loader that ``program`` needs, as paths below ``root``."""
    found: dict[str, Path] = {}
    queue = [program]
    while queue:
        (tools.work / "elf").write_bytes(queue.pop().read_bytes())
        text = tools.run(["readelf", "--dynamic", "--program-headers", "--wide", "elf"])
        names = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
        names += [Path(name).name for name in re.findall(r"program interpreter: (\S+)\]", text)]
        for name in names:
            if name not in found:
                found[name] = _find_library(root, name)
                queue.append(_resolve(root, str(found[name])))
    return sorted(found.values())


def _find_library(root: Path, name: str) -> Path:
    folders = [
        *sorted((root / "usr/lib").glob("*-linux-gnu*")),
        root / "usr/lib64",
        root / "usr/lib",
    ]
    for folder in folders:
        if (folder / name).exists() or (folder / name).is_symlink():
            return (folder / name).relative_to(root)
    raise BuildError(f"the root has no library {name}, which a program of the initrd needs")


def _resolve(root: Path, path: str) -> Path:
    """Follow links inside ``root``: an absolute one means the root's, not the host's."""
    current = root / path
    for _ in range(10):
        if not current.is_symlink():
            return current
        target = current.readlink()
        current = (
            root / str(target).lstrip("/") if target.is_absolute() else (current.parent / target)
        )
    raise BuildError(f"{path}: links go round in the root tree")
