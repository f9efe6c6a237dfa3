# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks, each with its time; what a failing one said; status 1 if any failed: `tools.check`.

Every check runs even if an earlier one failed, so that one run shows all there is to mend.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tools import hygiene
from tools.paths import LOGS, ROOT, venv_program
from tools.setup import cargo_environment
from tools.step import elapsed, entry

SHOWN_LINES = 40
PYTHON = venv_program("python")


@dataclass(frozen=True)
class Check:
    """One command. `cargo` says that it runs in the core's build environment."""

    name: str
    command: tuple[str, ...]
    cargo: bool = False


CLIPPY = ("cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--locked")

SHEBANG = re.compile(rb"#!\s*/(?:usr/)?bin/(?:env )?(?:ba|da)?sh\b")

# Apart from each other: two of them may have a module of the same name.
TYPED = {
    "tools": ("tools",),
    "app": ("app/voice_edge", "app/standins", "core/python/voicecore"),
    "tests of voicecore": ("core/python/tests",),
    "tests of the app": ("app/tests",),
    "image": ("image", "bundle", "ota"),
    "reference": ("core/reference",),
    "tests": ("tests",),
}


def shell_scripts() -> list[str]:
    """Scripts by their first line: most have no suffix."""
    found = []
    for path in hygiene.files():
        with path.open("rb") as file:
            if SHEBANG.match(file.readline()):
                found.append(str(path.relative_to(ROOT)))
    return found


def checks() -> Iterator[Check]:
    """All checks, quick ones first."""
    # SC2043: a list may have one element today.
    shellcheck = (venv_program("shellcheck"), "--severity=warning", "--exclude=SC2043")
    yield Check("shell", (*shellcheck, *shell_scripts()))
    yield Check("files", (PYTHON, "-m", "tools.hygiene"))
    yield Check(
        "Rust format", ("cargo", "fmt", "--all", "--check", "--", "--color", "never"), cargo=True
    )
    yield Check("Python format", (PYTHON, "-m", "ruff", "format", "--check", "--quiet", "."))
    yield Check(
        "Python lint", (PYTHON, "-m", "ruff", "check", "--quiet", "--output-format", "concise", ".")
    )
    for name, folders in TYPED.items():
        having = [folder for folder in folders if any((ROOT / folder).rglob("*.py"))]
        if having:
            yield Check(f"Python types: {name}", (PYTHON, "-m", "mypy", *having))
    if (ROOT / "core/python/pyproject.toml").exists():
        yield Check("stubs of voicecore", (PYTHON, "-m", "mypy.stubtest", "voicecore._core"))
    yield Check("Rust lint", (*CLIPPY, "--", "-D", "warnings"), cargo=True)


def _show(check: Check, output: str) -> None:
    """The beginning of what a failed check said; all of it into out/log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"check-{check.name.replace(' ', '-').replace(':', '')}.log"
    log.write_text(output)
    lines = output.splitlines()
    print("\n".join(f"    {line}" for line in lines[:SHOWN_LINES]))
    if len(lines) > SHOWN_LINES:
        print(f"    … {len(lines) - SHOWN_LINES} more lines in {log.relative_to(ROOT)}")
    print(f"  that was: {' '.join(check.command)}\n", flush=True)


def main(_arguments: list[str]) -> int:
    cargo = cargo_environment()
    failed = []
    every = list(checks())
    for check in every:
        begun = time.monotonic()
        environment = cargo if check.cargo else None
        done = subprocess.run(
            check.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        good = done.returncode == 0
        print(f"{'✓' if good else '✗'} {check.name}  {elapsed(time.monotonic() - begun)}")
        if not good:
            failed.append(check.name)
            _show(check, done.stdout)
        sys.stdout.flush()
    if failed:
        print(f"{len(failed)} of {len(every)} checks failed: {', '.join(failed)}")
        print("`./justw fix` mends formatting and what the linters can mend themselves.")
    else:
        print(f"all {len(every)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    entry(main)
