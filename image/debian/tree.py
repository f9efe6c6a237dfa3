# SPDX-License-Identifier: GPL-3.0-or-later
"""A root tree from locked packages, by mmdebstrap and a flat repository that holds just them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from image import emulation
from image.arch import Arch
from image.debian.fetch import fetch
from image.debian.lock import Package
from image.run import run

SUITE = "trixie"


def make(
    packages: list[Package], arch: Arch, target: Path, *, epoch: int, hooks: list[str] | None = None
) -> None:
    """Install ``packages`` into the new folder ``target`` (a tree owned by root; needs root).

    ``epoch`` becomes SOURCE_DATE_EPOCH: no file of the tree is newer. ``hooks`` are shell snippets run at the end with
    ``$1`` as the tree.
    """
    debs = fetch(packages)
    if not arch.native:
        emulation.emulate(arch)
    with tempfile.TemporaryDirectory(prefix="voice-edge-repo-") as scratch:
        repository = Path(scratch)
        _flat_repository(repository, packages, debs)
        command = [
            "mmdebstrap",
            "--mode=root",
            "--variant=essential",
            "--format=directory",
            "--quiet",
        ]
        command += [
            f"--architectures={arch.debian}",
            f"--include={','.join(package.name for package in packages)}",
        ]
        command += ["--skip=check/qemu", "--aptopt=APT::Install-Recommends false"]
        command += [
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
        ]
        command += [
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        ]
        # The flat repository is on this disk and gone after the build: the tree shall not name it.
        command += ['--customize-hook=: > "$1"/etc/apt/sources.list']
        command += [f"--customize-hook={hook}" for hook in hooks or []]
        command += [SUITE, str(target), f"deb [trusted=yes] copy:{repository} ./"]
        environment = {
            **os.environ,
            "SOURCE_DATE_EPOCH": str(epoch),
            "TMPDIR": str(target.parent),
            "LC_ALL": "C.UTF-8",
            **emulation.environment(arch),
        }
        shutil.rmtree(target, ignore_errors=True)
        run(command, env=environment)


def _flat_repository(folder: Path, packages: list[Package], debs: list[Path]) -> None:
    paragraphs = []
    for package, deb in zip(packages, debs, strict=True):
        name = f"{package.name}_{package.arch}.deb"
        (folder / name).symlink_to(deb)
        control = subprocess.run(
            ["dpkg-deb", "--field", str(deb)], capture_output=True, text=True, check=True
        ).stdout
        paragraphs.append(
            f"{control.strip()}\nFilename: ./{name}\nSize: {package.size}\nSHA256: {package.sha256}\n"
        )
    index = "\n".join(paragraphs).encode()
    (folder / "Packages").write_bytes(index)
    # apt takes Suite and Codename from here; without them its pinning and mmdebstrap's checks fail.
    (folder / "Release").write_text(
        f"Origin: voice-edge\nLabel: voice-edge\nSuite: {SUITE}\nCodename: {SUITE}\n"
        f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    )
