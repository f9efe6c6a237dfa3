# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of Debian packages: name, version, architecture, size, sha256, archive, pool path; one package a line.

A mirror keeps only current versions, so a lock goes stale when a package is superseded; what was fetched once stays
in the user-level cache by its sha256 (fetch.py), and `relock` makes a new lock and says what changed.
"""

from __future__ import annotations

import tomllib
import urllib.parse
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from image.arch import ARCHES, Arch
from tools import apt
from tools.cache import cache_dir, locked, say

HERE = Path(__file__).resolve().parent
PACKAGES = HERE / "packages.toml"
ARCHIVES = {"debian": "Debian", "security": "Debian-Security"}
"""Archive name in the lock → label of its Release file, by which this machine's apt knows its address."""
HEADER = "# name\tversion\tarch\tsize\tsha256\tarchive\tpath   (made by `just image-lock`)\n"


class LockError(Exception):
    """The lock cannot be read or made; the text names the place and the remedy."""


@dataclass(frozen=True, order=True)
class Package:
    """One locked .deb."""

    name: str
    version: str
    arch: str
    size: int
    sha256: str
    archive: str
    path: str

    @property
    def line(self) -> str:
        """The line of the lock."""
        return "\t".join(str(field) for field in astuple(self)) + "\n"


def lock_file(target: str, arch: Arch) -> Path:
    """Where the lock of ``target`` (a table of packages.toml) lies."""
    return HERE / "lock" / f"{target}-{arch.name}.tsv"


def read(target: str, arch: Arch) -> list[Package]:
    """Read a lock; raises LockError naming file and line when it is damaged."""
    path = lock_file(target, arch)
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}; make it with `just image-lock`") from error
    return [
        _parse(path, number, line)
        for number, line in enumerate(lines, 1)
        if not line.startswith("#")
    ]


def _parse(path: Path, number: int, line: str) -> Package:
    fields = line.split("\t")
    if (
        len(fields) != 7
        or not fields[3].isdigit()
        or len(fields[4]) != 64
        or fields[5] not in ARCHIVES
    ):
        raise LockError(
            f"{path}:{number}: not a line of a lock; make it anew with `just image-lock`"
        )
    return Package(fields[0], fields[1], fields[2], int(fields[3]), fields[4], fields[5], fields[6])


def relock(target: str, arch: Arch) -> list[str]:
    """Resolve ``target`` against the archive's current state, write the lock, and return what changed."""
    wanted = wanted_packages(target, arch)
    new = resolve(target, arch, wanted)
    path = lock_file(target, arch)
    old = read(target, arch) if path.exists() else []
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER + "".join(package.line for package in new))
    return differences(old, new)


def differences(old: list[Package], new: list[Package]) -> list[str]:
    """Lines such as ``rauc 1.13-3 → 1.13-4`` for what was added, removed or changed."""
    before = {package.name: package for package in old}
    after = {package.name: package for package in new}
    lines = []
    for name in sorted(before.keys() | after.keys()):
        left, right = before.get(name), after.get(name)
        if left is None or right is None:
            lines.append(
                f"{name} {left.version if left else '—'} → {right.version if right else '—'}"
            )
        elif left.sha256 != right.sha256:
            lines.append(f"{name} {left.version} → {right.version}")
    return lines


def wanted_packages(target: str, arch: Arch) -> list[str]:
    """The packages that packages.toml asks for by name."""
    common = tomllib.loads(PACKAGES.read_text())[target].get("packages", [])
    return [*common, *_section(target, arch).get("packages", [])]


def _section(target: str, arch: Arch) -> dict[str, list[str]]:
    section: dict[str, list[str]] = tomllib.loads(PACKAGES.read_text())[target].get(arch.name, {})
    return section


def resolve(target: str, arch: Arch, wanted: list[str]) -> list[Package]:
    """Have apt resolve ``wanted`` and the essential set on an empty system of ``arch``."""
    base = cache_dir() / "apt" / f"image-{target}-{arch.name}"
    suites = tomllib.loads(PACKAGES.read_text())["suites"]
    addresses = {name: apt.repositories(label) for name, label in ARCHIVES.items()}
    with locked(base.with_suffix(".lock"), f"package lists of {arch.debian}"):
        options = _options(base, arch, suites, addresses)
        apt.update(base, options, f"{suites[0]} ({arch.debian})", force=True)
        essential = "?and(?essential,?version(.))"
        text = apt.run(
            ["apt-get", *options, "install", "--yes", "--print-uris", essential, *wanted], 300
        )
        uris = [line.split()[0].strip("'") for line in text.splitlines() if line.startswith("'")]
        if not uris:
            raise LockError(
                f"apt resolved nothing for {target} on {arch.name}; look at {PACKAGES.name}"
            )
        packages = sorted(_facts(options, uris, addresses))
    keep = _section(target, arch).get("keep")
    if keep is not None:
        packages = [package for package in packages if package.name.startswith(tuple(keep))]
    say(f"{target} {arch.name}: {len(packages)} packages")
    return packages


def _options(
    base: Path, arch: Arch, suites: list[str], addresses: dict[str, list[str]]
) -> list[str]:
    lines = []
    for suite in suites:
        archive = "security" if suite.endswith("-security") else "debian"
        lines += [
            f"deb [arch={arch.debian}] {uri} {suite} main\n" for uri in addresses[archive][:1]
        ]
    options = apt.private_options(base, "".join(lines))
    (base / "status").write_text("")
    settings = {
        "Dir::State::status": base / "status",
        "APT::Architecture": arch.debian,
        "APT::Architectures": arch.debian,
        "APT::Install-Recommends": "false",
        "Acquire::ForceHash": "SHA256",
    }
    return [
        *options,
        *(word for key, value in settings.items() for word in ("-o", f"{key}={value}")),
    ]


def _facts(options: list[str], uris: list[str], addresses: dict[str, list[str]]) -> list[Package]:
    known = _index(options)
    packages = []
    for uri in uris:
        archive, path = _split(uri, addresses)
        fields = known.get(path)
        if fields is None:
            raise LockError(
                f"apt names {path}, which is in no package list; run `just image-lock` again"
            )
        packages.append(
            Package(
                fields["Package"],
                fields["Version"],
                fields["Architecture"],
                int(fields["Size"]),
                fields["SHA256"],
                archive,
                path,
            )
        )
    return packages


def _split(uri: str, addresses: dict[str, list[str]]) -> tuple[str, str]:
    for archive, bases in addresses.items():
        for base in bases:
            if uri.startswith(base.rstrip("/") + "/pool/"):
                return archive, urllib.parse.unquote(uri.removeprefix(base.rstrip("/") + "/"))
    raise LockError(f"apt resolved a package outside Debian's archives: {uri}")


def _index(options: list[str]) -> dict[str, dict[str, str]]:
    """Every paragraph of the package lists by its pool path."""
    text = apt.run(["apt-cache", *options, "dumpavail"], 120)
    index = {}
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if line[:1].isalpha() and ": " in line
        )
        if "Filename" in fields:
            index[fields["Filename"]] = fields
    return index


def targets() -> list[tuple[str, Arch]]:
    """Every lock there is."""
    single = [
        ("tools", ARCHES["x86_64"]),
        ("build", ARCHES["x86_64"]),
        ("sysroot", ARCHES["aarch64"]),
    ]
    single.append(("kconfig", ARCHES["x86_64"]))
    return [
        *single,
        *((target, arch) for target in ("rootfs", "boot", "freeze") for arch in ARCHES.values()),
    ]


def relock_all(only: Sequence[str] = ()) -> list[str]:
    """Make every lock anew, or those of the targets ``only``; returns what changed, each line with the lock's name."""
    changes = []
    for target, arch in targets():
        if only and target not in only:
            continue
        changes += [f"{target}-{arch.name}: {line}" for line in relock(target, arch)]
    return changes
