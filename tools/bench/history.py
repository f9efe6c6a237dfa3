# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change is compared with: its merge base, whether the media path differs, and the base's tree."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

MEDIA_PATH = (
    *("Cargo.toml", "Cargo.lock", "core/engine/Cargo.toml"),
    *("core/engine/build.rs", "core/engine/vad_weights.rs"),
    *(
        f"core/engine/src/{name}"
        for name in ("media", "signal", "transport", "record", "events.rs")
    ),
)
ON_MAIN_S = 3 * 3600
"""On main itself: what main was this long before its tip."""
ACCEPTED = "Slower-on-purpose"
"""A commit's trailer that says why a slowdown is wanted."""


@dataclass(frozen=True)
class Base:
    commit: str
    why: str
    """How it was found, in words."""


class Repository:
    """Git questions about one checkout."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def base(self, named: str | None = None) -> Base | None:
        """The commit to compare with; None where history does not hold one (a first commit, a shallow clone)."""
        named = named or os.environ.get("VC_GATE_BASE")
        if named:
            commit = self._line("rev-parse", "--verify", "--quiet", f"{named}^{{commit}}")
            return Base(commit, f"named {named}") if commit else None
        head = self._line("rev-parse", "--verify", "--quiet", "HEAD")
        for branch in ("origin/main", "main"):
            commit = self._line("merge-base", "HEAD", branch)
            if commit and commit != head:
                return Base(commit, f"merge base with {branch}")
        when = self._line("log", "-1", "--format=%ct", "HEAD")
        if not when:
            return None
        before = f"--before=@{int(when) - ON_MAIN_S}"
        commit = self._line("rev-list", "-1", "--first-parent", before, "HEAD")
        return Base(commit, "main three hours before its tip") if commit else None

    def touched(self, base: Base) -> list[str]:
        """Files of the media path in which this tree, with what is not committed, differs from the base."""
        changed = self._lines("diff", "--name-only", base.commit, "--", *MEDIA_PATH)
        return changed + self._lines("ls-files", "--others", "--exclude-standard", *MEDIA_PATH)

    def accepted(self, base: Base) -> list[str]:
        """Reasons that commits since the base give for being slower."""
        wanted = f"--format=%(trailers:key={ACCEPTED},valueonly,unfold)"
        return [line for line in self._lines("log", wanted, f"{base.commit}..HEAD") if line]

    def unpack(self, base: Base, into: Path) -> None:
        """The base's tree."""
        done = subprocess.run(
            ["git", "archive", "--format=tar", base.commit],
            cwd=self._root,
            capture_output=True,
            check=True,
        )
        into.mkdir(parents=True)
        with tarfile.open(fileobj=BytesIO(done.stdout)) as tar:
            if hasattr(tarfile, "data_filter"):
                # The image's overlay has links to absolute paths: "data" refuses them.
                tar.extractall(into, filter="tar")
            else:
                tar.extractall(into)
        # Cargo goes by times: what was built of another base would be newer than the commit's own.
        for path in into.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path)

    def _lines(self, *arguments: str) -> list[str]:
        done = self._git(arguments)
        return done.stdout.splitlines() if done.returncode == 0 else []

    def _line(self, *arguments: str) -> str:
        return next(iter(self._lines(*arguments)), "")

    def _git(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=self._root, capture_output=True, text=True, check=False
        )
