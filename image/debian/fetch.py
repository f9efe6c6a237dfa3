# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked packages on this machine: from the user-level cache by sha256, else from the archive."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from image.debian.lock import ARCHIVES, Package
from tools import apt
from tools.cache import cache_dir, locked, say, sha256_of

BATCH = 40
"""Packages a call of apt-helper: it loads several at once, and a failure names few suspects."""


class PackagesGone(Exception):
    """Locked packages are neither cached nor in the archive any more."""

    def __init__(self, gone: list[Package]) -> None:
        self.gone = gone
        names = "\n".join(
            f"  {package.name} {package.version} ({package.arch})" for package in gone
        )
        super().__init__(
            f"{len(gone)} locked packages are gone from the archive and not in the cache:\n{names}\n"
            "The archive keeps current versions only. Make a new lock with `just image-lock`, look at "
            "what changed, and commit it."
        )


def deb(package: Package) -> Path:
    """Where the package lies in the cache, there or not."""
    return cache_dir() / "debs" / package.sha256[:2] / f"{package.sha256}.deb"


def fetch(packages: list[Package]) -> list[Path]:
    """Return the verified .deb files; raises PackagesGone naming each that cannot be had."""
    with locked(cache_dir() / "debs.lock", "packages of the image"):
        missing = [package for package in packages if not _good(package)]
        if missing:
            megabytes = sum(package.size for package in missing) / 1e6
            say(f"packages: fetching {len(missing)} ({megabytes:.0f} MB)")
        addresses = {name: apt.repositories(label) for name, label in ARCHIVES.items()}
        gone: list[Package] = []
        for batch in _batches(missing):
            _download(batch, addresses)
            for package in batch:
                if not _good(package):
                    # One bad address ends a batch early: each that is missing gets a try of its own.
                    _download([package], addresses)
                    if not _good(package):
                        gone.append(package)
        if gone:
            raise PackagesGone(gone)
    return [deb(package) for package in packages]


def _good(package: Package) -> bool:
    path = deb(package)
    return (
        path.is_file() and path.stat().st_size == package.size and sha256_of(path) == package.sha256
    )


def _batches(packages: list[Package]) -> Iterator[list[Package]]:
    for start in range(0, len(packages), BATCH):
        yield packages[start : start + BATCH]


def _download(packages: list[Package], addresses: dict[str, list[str]]) -> None:
    command = [
        str(apt.HELPER),
        "-o",
        "Acquire::Retries=3",
        "-o",
        "APT::Sandbox::User=root",
        "download-file",
    ]
    for package in packages:
        target = deb(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        for base in addresses[package.archive][:1]:
            uri = base.rstrip("/") + "/" + urllib.parse.quote(package.path, safe="/+~:@")
            command += [uri, str(target), f"SHA256:{package.sha256}"]
    apt.run(command, 1800, check=False)
