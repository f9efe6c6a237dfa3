# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of an image build: quiet while they work, with the end of their output when they do not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TAIL = 40


class BuildError(Exception):
    """A step of the build failed; the text names the step and what it said."""


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes | None = None,
) -> str:
    """Run ``command`` and return its stdout; raises BuildError with the last lines of stderr."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, input=stdin or b"", capture_output=True, check=False
        )
    except OSError as error:
        raise BuildError(
            f"{words[0]}: {error.strerror}; `./justw` installs what an image build needs"
        ) from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace").splitlines()[-TAIL:]
        raise BuildError(
            f"{' '.join(words[:3])} … ended with {done.returncode}:\n" + "\n".join(said)
        )
    return done.stdout.decode(errors="replace")
