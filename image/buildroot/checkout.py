# SPDX-License-Identifier: GPL-3.0-or-later
"""The pinned Buildroot: where it is, whether it is that, and how to run its make."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from image.buildroot.pins import COMMIT, TAG, TREE, UPSTREAM
from image.run import BuildError, run
from tools.cache import cache_dir, locked, say

EXTERNAL = Path(__file__).resolve().parent
NOT_CONTENT = (":!/dl", ":!/output")
"""What Buildroot makes inside its own folder when told nothing else; not of the release."""


def named() -> Path:
    """The checkout that BUILDROOT_DIR names; raises BuildError, saying how to get one."""
    word = os.environ.get("BUILDROOT_DIR", "")
    if not word:
        raise BuildError(
            f"BUILDROOT_DIR is not set. It names a checkout of Buildroot {TAG}, which you can make so:\n"
            f"    git clone --depth 1 --branch {TAG} {UPSTREAM} buildroot\n"
            "    BUILDROOT_DIR=$PWD/buildroot just image-verify buildroot"
        )
    path = Path(word).resolve()
    if not (path / "Makefile").is_file() or not (path / "package/Config.in").is_file():
        raise BuildError(
            f"BUILDROOT_DIR={word} is no Buildroot checkout (it has no Makefile and package/Config.in)"
        )
    return path


def get() -> Path:
    """The checkout to build with: BUILDROOT_DIR, else a clone of upstream in the cache; its content is checked."""
    if os.environ.get("BUILDROOT_DIR"):
        path = named()
    else:
        path = cache_dir() / f"buildroot-{TAG}"
        with locked(path.with_suffix(".lock"), "Buildroot"):
            if not path.is_dir():
                say(f"Buildroot {TAG}: cloning from upstream")
                part = path.with_suffix(".part")
                run(["rm", "-rf", part])
                run(["git", "clone", "--quiet", "--depth", "1", "--branch", TAG, UPSTREAM, part])
                part.rename(path)
    fault = difference(path)
    if fault is not None:
        raise BuildError(fault)
    return path


def difference(path: Path) -> str | None:
    """What makes ``path`` something else than the pinned commit; None when it is that, file by file."""
    if (path / ".git").exists():
        head = run(["git", "-C", path, "-c", "safe.directory=*", "rev-parse", "HEAD"]).strip()
        if head != COMMIT:
            return (
                f"{path} is at commit {head}; `git -C {path} checkout {COMMIT}` is what is pinned"
            )
    tree = content(path)
    if tree != TREE:
        return f"{path} differs from Buildroot {TAG} (content {tree[:12]}, pinned {TREE[:12]}): changed or added files"
    return None


def content(path: Path) -> str:
    """git's hash of the files below ``path``, whether it is a git checkout or an unpacked archive."""
    with tempfile.TemporaryDirectory(prefix="voice-edge-git-") as scratch:
        git: list[str | Path] = [
            "git",
            "-c",
            "core.autocrlf=false",
            "-c",
            "core.fileMode=true",
            f"--git-dir={scratch}",
        ]
        run(["git", "init", "--quiet", "--bare", scratch])
        run(
            [*git, f"--work-tree={path}", "add", "--all", "--force", "--", ".", *NOT_CONTENT],
            cwd=path,
        )
        return run([*git, "write-tree"]).strip()


def make_command(path: Path, output: Path, targets: Sequence[str]) -> list[str]:
    """Command line of Buildroot's make with our external tree, at low priority."""
    return [
        "nice",
        "make",
        "--no-print-directory",
        "-C",
        str(path),
        f"BR2_EXTERNAL={EXTERNAL}",
        f"O={output}",
        *targets,
    ]


def environment(downloads: Path) -> dict[str, str]:
    """Environment of Buildroot: nothing is written into the checkout."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "http_proxy", "https_proxy")
        if name in os.environ
    }
    # The system's Python: Debian's python3-magic, which check-package needs, is only there.
    kept["PATH"] = f"/usr/bin:{kept.get('PATH', os.defpath)}"
    return {
        **kept,
        "BR2_DL_DIR": str(downloads),
        "VOICE_EDGE_PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }


def make(path: Path, output: Path, targets: Sequence[str], downloads: Path) -> str:
    """Run a quick target of Buildroot's make and return what it printed."""
    return run(make_command(path, output, ["-s", *targets]), env=environment(downloads))


def build(path: Path, output: Path, targets: Sequence[str], downloads: Path) -> None:
    """Run a long target, its output on ours."""
    settings = environment(downloads)
    if os.geteuid() == 0:
        # Some packages refuse to be configured by root unless told that it is meant.
        settings["FORCE_UNSAFE_CONFIGURE"] = "1"
    done = subprocess.run(make_command(path, output, targets), env=settings, check=False)
    if done.returncode != 0:
        raise BuildError(
            f"Buildroot ended with {done.returncode}; what failed is printed above, the build is in {output}"
        )
