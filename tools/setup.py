# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings this checkout to where a recipe can run: `python3 -m tools.setup RECIPE`.

Debian packages, pinned Python packages, the core's wheel, the app; each only when it is not there
yet or its sources changed. What was done is remembered inside .venv, so that a new .venv starts
anew, and a second run has nothing to do but to compare.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tools import system
from tools.paths import OUT, REQUIREMENTS, ROOT, VENV, uv, uv_environment, venv_program, version
from tools.step import entry, exclusive, run, step

RUNTIME = ("bootstrap", "build", "app", "standins")
SETS = {
    "build": RUNTIME,
    "demo": RUNTIME,
    "bench": RUNTIME,
    "parity": RUNTIME,
    "test": (*RUNTIME, "dev"),
    "hil": (*RUNTIME, "dev", "hil"),
    "check": (*RUNTIME, "dev"),
    "image-verify": (*RUNTIME, "dev"),
    "fix": (*RUNTIME, "dev"),
}
CORE_SOURCES = ("Cargo.toml", "Cargo.lock", "third_party.toml", "tools/pjsip.py", "core")
NOT_SOURCES = {
    "target",
    "tests",
    "benches",
    "fuzz",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
}
MEMORY = VENV / "voice-edge.json"


def cargo_environment() -> dict[str, str]:
    """For cargo: a toolchain that serves, and the pinned third-party parts, built if need be."""
    environment = {
        **os.environ,
        "PATH": system.rust_path(),
        "CARGO_NET_RETRY": os.environ.get("CARGO_NET_RETRY", "5"),
    }
    environment.setdefault("PYO3_PYTHON", venv_program("python"))
    if "VC_PJSIP_PREFIX" not in environment and (ROOT / "tools/pjsip.py").exists():
        environment["VC_PJSIP_PREFIX"] = tool(
            "pjsip", "Building PJSIP and libsrtp", "about 2 min, once per user"
        )
    if "VC_SILERO_ONNX" not in environment and (ROOT / "tools/fetch.py").exists():
        environment["VC_SILERO_ONNX"] = tool(
            "fetch",
            "Fetching the voice-activity model",
            "some seconds, once per user",
            "silero_vad",
        )
    return environment


def ensure(recipe: str) -> None:
    """Makes ready for `recipe`; raises `step.Failed` with place and remedy when it cannot."""
    system.ensure([recipe])
    with exclusive("setup"):
        remembered = _read_memory()
        _sync_packages(SETS[recipe], remembered)
        if recipe in ("fix", "image-verify"):
            return
        _install_core(remembered)
        _install_local(remembered)


def tool(name: str, title: str, expect: str, *arguments: str) -> str:
    """Last line of what `python3 -m tools.NAME` prints: the path of what it made."""
    with step(title, log=name, expect=expect, silent_s=1.0):
        printed = run([sys.executable, "-m", f"tools.{name}", *arguments])
    return printed.strip().splitlines()[-1]


def _sync_packages(sets: Iterable[str], remembered: dict[str, str]) -> None:
    files = [REQUIREMENTS / f"{name}.txt" for name in sets]
    wanted = {f"requirements/{file.name}": _digest([file]) for file in files}
    have = {key: value for key, value in remembered.items() if key.startswith("requirements/")}
    if wanted.items() <= have.items():
        return  # more may be there (the tests' packages): that does not hurt
    for key in list(remembered):
        del remembered[key]  # a sync takes away what is not listed, our own packages among it
    _write_memory(remembered)
    with step("Installing Python packages", log="python", expect="about 1 min the first time"):
        command = [
            uv(),
            "pip",
            "sync",
            "--quiet",
            "--require-hashes",
            "--only-binary",
            ":all:",
            *map(str, files),
        ]
        run(command, env=uv_environment())
    remembered.update(wanted)
    _write_memory(remembered)


def _install_core(remembered: dict[str, str]) -> None:
    manifest = ROOT / "core/python/pyproject.toml"
    if not manifest.exists():
        return
    path = system.rust_path()
    rustc = run(
        [shutil.which("rustc", path=path) or "rustc", "--version"], env={**os.environ, "PATH": path}
    )
    # The stock model's back end of voice activity, whose crate asks for a newer Rust than the core.
    features = ["--features", "onnxruntime"] if version(rustc) >= (1, 92) else []
    print_of_sources = _digest(_files(CORE_SOURCES), rustc, *features)
    if remembered.get("core") == print_of_sources:
        return
    wheels = OUT / "wheels" / print_of_sources[:16]
    if not list(wheels.glob("*.whl")):
        environment = cargo_environment()
        with step("Building the core (release)", log="core", expect="about 3 min the first time"):
            command = [
                venv_program("maturin"),
                "build",
                "--release",
                "--locked",
                "--auditwheel",
                "skip",
            ]
            command += ["--compatibility", "linux", "--interpreter", venv_program("python")]
            command += features
            run(
                [*command, "--manifest-path", "core/python/Cargo.toml", "--out", str(wheels)],
                env=environment,
            )
    wheel = next(wheels.glob("*.whl"))
    with step("Installing the core", log="core-install"):
        command = [uv(), "pip", "install", "--quiet", "--no-deps", "--reinstall", str(wheel)]
        run(command, env=uv_environment())
    remembered["core"] = print_of_sources
    _write_memory(remembered)


def _install_local(remembered: dict[str, str]) -> None:
    """The app, editable, and the stand-ins by path: they are no part of what ships."""
    manifest = ROOT / "app/pyproject.toml"
    if not manifest.exists():
        return
    wanted = _digest([manifest])
    if remembered.get("app") == wanted:
        return
    with step("Installing the app", log="app"):
        command = [
            uv(),
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--editable",
            "app",
        ]
        run(command, env=uv_environment())
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(run([venv_program("python"), "-c", where]).strip())
        (packages / "voice_edge_standins.pth").write_text(f"{ROOT / 'app/standins'}\n")
    remembered["app"] = wanted
    _write_memory(remembered)


def _files(names: Iterable[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        top = ROOT / name
        if top.is_file():
            found.append(top)
        for folder, folders, files in os.walk(top):
            folders[:] = [entry for entry in folders if entry not in NOT_SOURCES]
            found += [Path(folder) / file for file in files if not file.endswith((".pyc", ".so"))]
    return sorted(found)


def _digest(files: Iterable[Path], *extra: str) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    for text in extra:
        digest.update(text.encode())
    return digest.hexdigest()


def _read_memory() -> dict[str, str]:
    try:
        remembered = json.loads(MEMORY.read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in remembered.items()}


def _write_memory(remembered: dict[str, str]) -> None:
    MEMORY.write_text(json.dumps(remembered, indent=1))


def main(arguments: list[str]) -> int:
    for recipe in arguments:
        ensure(recipe)
    return 0


if __name__ == "__main__":
    entry(main)
