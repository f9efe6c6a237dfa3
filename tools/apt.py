# SPDX-License-Identifier: GPL-3.0-or-later
"""Files from Debian's archive through a private apt configuration.

The address of the archive is taken from the machine's own apt configuration, so proxies and mirrors set up there
hold here too. The system's package lists are neither changed nor needed; root is not needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tools.cache import cache_dir, locked, say

HELPER = Path("/usr/lib/apt/apt-helper")
KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
LISTS_FRESH_S = 6 * 3600
UPDATE_TIMEOUT_S = 600


class AptError(Exception):
    """apt could not do it; the text says what and why."""


def fetch_source(package: str, suites: Sequence[str], sha256: str, target: Path) -> None:
    """Write the component of source package ``package`` with this sha256 to ``target``.

    Any version in any of the suites will do. The caller checks the result.
    """
    _fetch("deb-src", package, suites, sha256, target)


def fetch_binary(package: str, suites: Sequence[str], sha256: str, target: Path) -> None:
    """Write the binary package (.deb) with this sha256 to ``target``."""
    _fetch("deb", package, suites, sha256, target)


def _fetch(kind: str, package: str, suites: Sequence[str], sha256: str, target: Path) -> None:
    if shutil.which("apt-get") is None or not HELPER.exists():
        raise AptError("no apt on this machine")
    seen: list[str] = []
    for suite in suites:
        try:
            if _fetch_from(kind, package, suite, sha256, target):
                return
            seen.append(f"{suite}: no version of {package} has a file with this sha256")
        except AptError as error:
            seen.append(f"{suite}: {error}")
    raise AptError("; ".join(seen))


def _fetch_from(kind: str, package: str, suite: str, sha256: str, target: Path) -> bool:
    base = cache_dir() / "apt" / f"{kind}-{suite}"
    with locked(base.with_suffix(".lock"), f"package lists of {suite}"):
        errors: list[str] = []
        for uri in repositories():
            options = private_options(base, f"{kind} {_trust()}{uri} {suite} main\n")
            # Lists that are still fresh may miss a file that came since: look again once.
            for force in (False, True):
                try:
                    updated = update(base, options, suite, force=force)
                except AptError as error:
                    errors.append(str(error))
                    break
                path = _find(kind, options, package, sha256)
                if path is not None:
                    _download(options, uri.rstrip("/") + "/" + path, target, sha256)
                    return True
                if updated:
                    break
        if errors:
            raise AptError("; ".join(errors))
    return False


def _find(kind: str, options: list[str], package: str, sha256: str) -> str | None:
    verb = ["showsrc", "--only-source"] if kind == "deb-src" else ["show"]
    text = run(["apt-cache", *options, *verb, package], 120, check=False)
    for paragraph in text.split("\n\n"):
        directory = filename = None
        for line in paragraph.splitlines():
            words = line.split()
            if line.startswith("Directory:"):
                directory = words[1]
            elif line.startswith("Filename:"):
                filename = words[1]
            elif line == f"SHA256: {sha256}" and filename:
                return filename
            elif len(words) == 3 and words[0] == sha256:
                filename = words[2]
        if directory and filename:
            return f"{directory}/{filename}"
    return None


def _download(options: list[str], uri: str, target: Path, sha256: str) -> None:
    run([str(HELPER), *options, "download-file", uri, str(target), f"SHA256:{sha256}"], 1800)


def update(base: Path, options: list[str], suite: str, *, force: bool) -> bool:
    stamp = base / "updated"
    if not force and stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < LISTS_FRESH_S:
        return False
    say(f"package lists of {suite}: loading")
    run(["apt-get", *options, "--error-on=any", "update"], UPDATE_TIMEOUT_S)
    stamp.touch()
    return True


def repositories(label: str = "Debian") -> list[str]:
    """Addresses of Debian archives that this machine's apt is set up with, the main one first.

    ``label`` is the Release file's: ``Debian`` or ``Debian-Security``.
    """
    uris = indextargets([], label)
    if not uris:
        # A machine without package lists (a fresh container): load them into a folder of our own.
        base = cache_dir() / "apt" / "system"
        options = private_options(base, None)
        run(["apt-get", *options, "update"], UPDATE_TIMEOUT_S, check=False)
        uris = indextargets(options, label)
    if not uris:
        raise AptError(
            "apt knows no Debian repository; check its sources with: apt-get indextargets"
        )
    return uris


def indextargets(options: list[str], label: str) -> list[str]:
    wanted = "$(REPO_URI)\t$(ORIGIN)\t$(LABEL)\t$(CREATED_BY)"
    text = run(["apt-get", *options, "indextargets", "--format", wanted], 60, check=False)
    uris: list[str] = []
    for line in text.splitlines():
        uri, _, rest = line.partition("\t")
        if rest == f"Debian\t{label}\tPackages" and uri not in uris:
            uris.append(uri)
    return uris


def _trust() -> str:
    for keyring in KEYRINGS:
        if keyring.exists():
            return f"[signed-by={keyring}] "
    return ""


def private_options(base: Path, sources: str | None) -> list[str]:
    """Options that keep apt inside ``base``; ``sources`` None leaves the machine's own sources in force."""
    for name in ("lists/partial", "cache/archives/partial"):
        (base / name).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::lists": base / "lists",
        "Dir::Cache": base / "cache",
        "Dir::Cache::archives": base / "cache" / "archives",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        # Under root apt would work as _apt, who cannot enter a home folder.
        "APT::Sandbox::User": "root",
    }
    if sources is not None:
        listing = base / "sources.list"
        listing.write_text(sources)
        settings["Dir::Etc::sourcelist"] = listing
        settings["Dir::Etc::sourceparts"] = "/dev/null"
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def run(command: list[str], timeout_s: float, *, check: bool = True) -> str:
    """Run and return stdout. With ``check``, a failure raises with the last lines of what it printed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AptError(f"{command[0]}: {error}") from error
    if check and done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:", "Err"))]
        raise AptError(
            f"{Path(command[0]).name}: " + ("; ".join(lines[-3:]) or f"exit {done.returncode}")
        )
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
