# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie in the checkout, and the environment that our subprocesses get."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
OUT = ROOT / "out"
LOGS = OUT / "log"

PYTHON_FLOOR = "3.11"
"""Oldest Python served: Debian 12's."""


def venv_program(name: str) -> str:
    """Path of a program of the checkout's environment, which `./justw` makes."""
    return str(VENV / "bin" / name)


def uv() -> str:
    return venv_program("uv")


def uv_environment() -> dict[str, str]:
    """Environment for uv: this checkout's .venv, the system's certificates, patience."""
    defaults = {"UV_SYSTEM_CERTS": "1", "UV_HTTP_TIMEOUT": "180", "UV_PYTHON_DOWNLOADS": "never"}
    # A cache on another file system than the checkout is common in containers: copying is right.
    defaults["UV_LINK_MODE"] = "copy" if not _same_file_system() else "hardlink"
    return {**defaults, **os.environ, "VIRTUAL_ENV": str(VENV)}


def cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _same_file_system() -> bool:
    cache = cache_home()
    try:
        return cache.stat().st_dev == ROOT.stat().st_dev
    except OSError:
        return False


def rust_floor() -> tuple[int, ...]:
    """Oldest Rust that Cargo.toml says the workspace builds with."""
    found = re.search(
        r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE
    )
    return version(found[1]) if found else (1, 85)


def version(text: str) -> tuple[int, ...]:
    """The first dotted number in `text`, cut to two parts: `rustc 1.96.0 (…)` → (1, 96)."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
