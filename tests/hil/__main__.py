# SPDX-License-Identifier: GPL-3.0-or-later
"""`just hil DRIVER [pytest options]`: which tests run, against what.

`local` is a process on this machine; `qemu` (or `qemu-x86_64`, `qemu-aarch64`) the shipped image; else
a labgrid environment file, by its path or its name in tests/hil/env.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
_ENVIRONMENTS = _HERE / "env"
_DEFAULT = {"qemu": "qemu-x86_64"}


def environment(name: str) -> Path | None:
    """The environment file that `name` stands for."""
    for path in (_ENVIRONMENTS / f"{_DEFAULT.get(name, name)}.yaml", Path(name)):
        if path.is_file():
            return path.resolve()
    return None


def main(arguments: list[str]) -> int:
    """Run the tests; pytest's exit status."""
    if not arguments:
        print(f"name a driver: local, {', '.join(names())}, or an environment file")
        return 2
    driver, *options = arguments
    if driver == "local":
        return int(pytest.main([str(_HERE), *options]))
    path = environment(driver)
    if path is None:
        known = ", ".join(["local", *names()])
        print(f"{driver} is no driver ({known}) and no environment file", file=sys.stderr)
        return 2
    # labgrid's plugin is switched off for all other tests (pyproject.toml).
    plugin = ["-p", "labgrid", "--lg-env", str(path)]
    return int(pytest.main([*plugin, str(_HERE / "qemu"), *options]))


def names() -> list[str]:
    """What can be named without a path."""
    return [*_DEFAULT, *(path.stem for path in sorted(_ENVIRONMENTS.glob("*.yaml")))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
