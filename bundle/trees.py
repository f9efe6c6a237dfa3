# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian 13 trees that a bundle is made in, from the image's locks: the host's own tools have no say in it.

Compiling is done in one x86_64 tree for both architectures; freezing is done in a tree of the target's architecture,
under QEMU's user emulation where that is not this machine's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from image import emulation
from image.arch import ARCHES, Arch
from image.debian import lock, tree
from image.debian.fetch import fetch
from image.run import BuildError, run
from image.toolroot import EPOCH, ToolRoot
from tools.cache import cache_dir, locked, say

BUILDER = ARCHES["x86_64"]
TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
RECIPE = b"1"
"""To be raised when trees of the same lock come out differently."""
KEPT_S = 7 * 24 * 3600


def compiling(work: Path) -> ToolRoot:
    """The tree with compilers for both architectures; ``work`` becomes its /work."""
    target = ARCHES["aarch64"]
    locks = [lock.lock_file("build", BUILDER), lock.lock_file("sysroot", target)]

    def make(root: Path) -> None:
        tree.make(lock.read("build", BUILDER), BUILDER, root, epoch=EPOCH)
        # Multi-arch packages: their folders are the target's own, and what they share with ours is the same file.
        for deb in fetch(lock.read("sysroot", target)):
            run(["dpkg-deb", "--extract", deb, root])

    return _tree("compilers of the bundle", "build", locks, make, work)


def freezing(arch: Arch, work: Path) -> ToolRoot:
    """The tree with ``arch``'s Python and little else."""
    if not arch.native:
        emulation.emulate(arch)

    def make(root: Path) -> None:
        unpack(lock.read("freeze", arch), root)

    return _tree(
        f"Python to freeze, {arch.name}",
        f"freeze-{arch.name}",
        [lock.lock_file("freeze", arch)],
        make,
        work,
    )


def unpack(packages: list[lock.Package], root: Path) -> None:
    """Unpack ``packages`` into the new folder ``root``, and note in dpkg's places what came from where.

    No program of the target runs, so this takes seconds where installing under emulation takes minutes. Python, the
    shell and the binary tools need none of what their packages do after unpacking.
    """
    notes = root / "var/lib/dpkg"
    (notes / "info").mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "dev", "tmp", "etc"):
        (root / name).mkdir(exist_ok=True)
    status = []
    for package, deb in zip(packages, fetch(packages), strict=True):
        # As an archive: dpkg-deb would put a folder in place of the links above.
        archive = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True
        )
        extract: list[str | Path] = [
            "tar",
            "--extract",
            "--verbose",
            "--keep-directory-symlink",
            "--directory",
            root,
        ]
        (notes / "info" / f"{package.name}.list").write_text(run(extract, stdin=archive.stdout))
        status.append(run(["dpkg-deb", "--field", deb]).strip() + "\n")
    (notes / "status").write_text("\n".join(status))


def _tree(
    what: str, name: str, locks: list[Path], make: Callable[[Path], None], work: Path
) -> ToolRoot:
    if os.geteuid() != 0:
        raise BuildError("building a bundle needs root (it enters Debian trees): run it with sudo")
    digest = hashlib.sha256(b"".join([RECIPE, *(path.read_bytes() for path in locks)]))
    root = cache_dir() / "bundle" / f"{name}-{digest.hexdigest()[:16]}"
    with locked(root.with_suffix(".lock"), what):
        if not (root / "work").is_dir():
            say(f"{what}: making their tree")
            _forget_old(root)
            make(root)
            (root / "work").mkdir()
        os.utime(root)
    work.mkdir(parents=True, exist_ok=True)
    return ToolRoot(root, work)


def _forget_old(root: Path) -> None:
    """Remove trees of this name and another lock that nothing entered for long: each takes up to 1.5 GB."""
    name = root.name.rpartition("-")[0]
    for other in root.parent.glob(f"{name}-" + "[0-9a-f]" * 16):
        if other != root and other.is_dir() and time.time() - other.stat().st_mtime > KEPT_S:
            shutil.rmtree(other)
