# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipes need from Debian, and how it gets here.

`python3 -m tools.system RECIPE…` installs what is missing, as root; as another user it prints the
one line to run and exits with status 1. `--explain` only prints that line. Needs nothing but
Python's standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from tools.paths import ROOT, rust_floor, version
from tools.step import Failed, entry, run, step


@dataclass(frozen=True)
class Need:
    """Something a recipe cannot do without.

    Each probe is `exe:NAME` (a program on the PATH), `file:PATH`, `python:MODULE`, `clang:RUNTIME` (a library that
    clang links its programs with) or `rust:TOOL` (cargo with a rustc that is new enough, or a tool of that toolchain).
    Packages are installed when any probe fails; `choose` picks among the alternatives.
    """

    why: str
    probes: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...]


NEEDS = {
    "venv": Need(
        "makes the checkout's Python environment",
        ("python:ensurepip", "file:/etc/ssl/certs/ca-certificates.crt"),
        (("python3", "python3-venv", "ca-certificates"),),
    ),
    "compiler": Need(
        "compiles PJSIP, libsrtp and the core",
        ("exe:gcc", "exe:g++", "exe:make", "exe:patch", "file:/usr/include/stdio.h"),
        (("gcc", "g++", "make", "patch", "libc6-dev"),),
    ),
    "openssl": Need(
        "TLS and SRTP in PJSIP",
        ("file:/usr/include/openssl/ssl.h",),
        (("libssl-dev",),),
    ),
    "uuid": Need(
        "call identifiers in PJSIP",
        ("file:/usr/include/uuid/uuid.h",),
        (("uuid-dev",),),
    ),
    # Debian 12's own rustc is from 2022; 12 and 13 carry a current one too, kept for browsers.
    "rust": Need(
        "compiles the core",
        ("rust:cargo",),
        (("rustc-web", "cargo-web"), ("rustc", "cargo")),
    ),
    "rustfmt": Need("formats the core", ("rust:rustfmt",), (("rustfmt-web",), ("rustfmt",))),
    "clippy": Need("lints the core", ("rust:clippy",), (("rust-web-clippy",), ("rust-clippy",))),
    "speech": Need(
        "recorded human speech: the caller of the demo and the tests",
        ("file:/usr/share/asterisk/sounds/en_US_f_Allison",),
        (("asterisk-core-sounds-en-wav",),),
    ),
    "sipp": Need("SIP test peer and load", ("exe:sipp",), (("sip-tester",),)),
    "baresip": Need("SIP test peer that is not PJSIP", ("exe:baresip",), (("baresip",),)),
    "ssh": Need(
        "looks into the box under test", ("exe:ssh", "exe:ssh-keygen"), (("openssh-client",),)
    ),
    "emulation": Need(
        "runs programs of the other architecture while its bundle and image are made",
        ("exe:qemu-aarch64-static", "exe:update-binfmts"),
        (("qemu-user-static", "binfmt-support"),),
    ),
    "kconfig": Need(
        "runs the configuration of Buildroot and of the kernel",
        ("exe:gcc", "exe:make", "exe:flex", "exe:bison", "exe:bc", "exe:perl", "exe:xz"),
        (("gcc", "libc6-dev", "make", "flex", "bison", "bc", "perl", "xz-utils"),),
    ),
    "buildroot": Need(
        "Buildroot asks for these before it does anything",
        (
            "exe:git",
            "exe:g++",
            "exe:cpio",
            "exe:rsync",
            "exe:unzip",
            "exe:file",
            "exe:bzip2",
            "exe:wget",
            "exe:patch",
        ),
        (("git", "g++", "cpio", "rsync", "unzip", "file", "bzip2", "wget", "patch"),),
    ),
    "buildroot-lint": Need(
        "Buildroot's lint of packages",
        ("exe:flake8", "exe:shellcheck", "file:/usr/lib/python3/dist-packages/magic/__init__.py"),
        (("flake8", "shellcheck", "python3-magic"),),
    ),
    "swig": Need("makes PJSIP's Python module", ("exe:swig",), (("swig",),)),
    "python-headers": Need(
        "compiles PJSIP's Python module",
        (f"file:{sysconfig.get_paths()['include']}/Python.h",),
        (("python3-dev",),),
    ),
    "git": Need("lists the files of the checkout", ("exe:git",), (("git",),)),
    "fuzzer": Need(
        "compiles PJSIP and the core under sanitizers, and fuzzes them",
        ("exe:clang", "exe:llvm-symbolizer", "clang:libclang_rt.fuzzer", "clang:libclang_rt.asan"),
        (("clang", "llvm", "libclang-rt-dev"),),
    ),
    "mmdebstrap": Need(
        "makes Debian trees: fresh machines, bundles, images",
        ("exe:mmdebstrap",),
        (("mmdebstrap",),),
    ),
}

_BUILD = ("venv", "compiler", "openssl", "uuid", "rust")

RECIPES: dict[str, tuple[str, ...]] = {
    "build": _BUILD,
    "demo": (*_BUILD, "speech"),
    "test": (*_BUILD, "speech", "sipp", "baresip"),
    "bench": (*_BUILD, "speech"),
    "parity": _BUILD,
    "bench-live": ("swig", "python-headers"),
    "hil": (*_BUILD, "speech", "sipp", "baresip", "ssh"),
    "check": (*_BUILD, "git", "rustfmt", "clippy"),
    "fuzz": (*_BUILD, "fuzzer"),
    "image-verify": ("venv", "kconfig", "buildroot", "buildroot-lint"),
    "image-buildroot": ("venv", "kconfig", "buildroot", "mmdebstrap"),
    "fix": ("venv", "rust", "rustfmt", "clippy"),
    "fresh": ("git", "mmdebstrap"),
    "bundle": ("venv", "rust", "mmdebstrap", "emulation"),
    "image": ("venv", "mmdebstrap", "emulation"),
}

APT_TRIES = 3
APT_OPTIONS = (
    "-o", "Acquire::Retries=5",
    "-o", "DPkg::Lock::Timeout=600",
    "-o", "Dpkg::Use-Pty=0",
)  # fmt: skip


def rust_path() -> str:
    """The PATH, with a cargo and rustc that are new enough first if there are any."""
    path = os.environ.get("PATH", os.defpath)
    for candidate in (path, f"/usr/bin{os.pathsep}{path}"):
        if all(_program_version(tool, candidate) >= rust_floor() for tool in ("rustc", "cargo")):
            return candidate
    return path


def missing(recipes: list[str]) -> list[str]:
    """Names of the needs of `recipes` that this machine does not meet."""
    names = dict.fromkeys(name for recipe in recipes for name in RECIPES.get(recipe, ()))
    return [name for name in names if not all(_met(probe) for probe in NEEDS[name].probes)]


def ensure(recipes: list[str]) -> None:
    """Installs what `recipes` lack.

    Raises:
        Failed: not root (the message is the one line to run), no apt-get, or apt-get failed.
    """
    names = missing(recipes)
    if not names:
        return
    components = [
        name for name in names if NEEDS[name].probes[0] in ("rust:rustfmt", "rust:clippy")
    ]
    if components and _rustup_serves():
        raise Failed(
            f"the Rust in use is rustup's; run: rustup component add {' '.join(components)}"
        )
    if shutil.which("apt-get") is None:
        wanted = ", ".join(f"{name} ({NEEDS[name].why})" for name in names)
        raise Failed(f"missing here, and this is not Debian, so install it by its means: {wanted}")
    if os.geteuid() != 0:
        raise Failed(explain(names))
    for name in names:
        print(f"  {name}: {NEEDS[name].why}", file=sys.stderr)
    with step("Installing Debian packages", log="apt", expect="up to some minutes"):
        _install(names)
    left = missing(recipes)
    if left:
        raise Failed(f"installed, but still not usable: {', '.join(left)} (log: out/log/apt.log)")


def _rustup_serves() -> bool:
    """Whether the Rust in use comes from rustup: its stand-ins may lie on the PATH with no toolchain chosen."""
    serving = shutil.which("rustc", path=rust_path())
    return bool(
        shutil.which("rustup") and serving and not serving.startswith("/usr/bin/")
    ) and _met("rust:cargo")


def explain(names: list[str]) -> str:
    """The line that a user without root has to have run."""
    packages = [package for name in names for package in choose(NEEDS[name])]
    reasons = "\n".join(f"  {name}: {NEEDS[name].why}" for name in names)
    sudo = "sudo " if shutil.which("sudo") else ""
    install = f"{sudo}apt-get install -y --no-install-recommends {' '.join(packages)}"
    return (
        f"Missing on this machine:\n{reasons}\n"
        "Run this line as root, then the same command again:\n\n"
        f"    {sudo}apt-get update && {install}\n"
    )


def choose(need: Need) -> tuple[str, ...]:
    """The alternative of `need` to install: of the Rust family in use and new enough."""
    if len(need.alternatives) == 1:
        return need.alternatives[0]
    web = _family_is_web()
    for packages in sorted(need.alternatives, key=lambda packages: ("-web" in packages[0]) != web):
        if _candidate(packages[0]) >= rust_floor():
            return packages
    return need.alternatives[0]


def _install(names: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    for tries_left in reversed(range(APT_TRIES)):
        try:
            run(["apt-get", "-q", *APT_OPTIONS, "update"], env=environment)
            # Chosen only now: before the update apt may offer nothing.
            packages = [package for name in names for package in choose(NEEDS[name])]
            install = [
                "apt-get",
                "-q",
                "-y",
                *APT_OPTIONS,
                "install",
                "--no-install-recommends",
                *packages,
            ]
            run(install, env=environment)
            return
        except Failed:
            if not tries_left:
                raise
            time.sleep(10)


def _met(probe: str) -> bool:
    kind, _, name = probe.partition(":")
    if kind == "exe":
        return shutil.which(name) is not None
    if kind == "file":
        return Path(name).exists()
    if kind == "python":
        return (
            subprocess.run(
                [sys.executable, "-c", f"import {name}"], capture_output=True, check=False
            ).returncode
            == 0
        )
    if kind == "clang":
        return _clang_has(name)
    path = rust_path()
    if name == "cargo":
        return all(_program_version(tool, path) >= rust_floor() for tool in ("rustc", "cargo"))
    # rustup leaves a stand-in on the PATH for tools it has not installed: only running it tells.
    tool = {"rustfmt": "rustfmt", "clippy": "cargo-clippy"}[name]
    return _program_version(tool, path) > (0, 0)


def _clang_has(runtime: str) -> bool:
    if shutil.which("clang") is None:
        return False
    told = subprocess.run(
        ["clang", "-print-resource-dir"], capture_output=True, text=True, check=False
    )
    return any(Path(told.stdout.strip()).glob(f"lib/**/{runtime}*.a"))


def _program_version(tool: str, path: str) -> tuple[int, ...]:
    program = shutil.which(tool, path=path)
    if program is None:
        return (0, 0)
    done = subprocess.run(
        [program, "--version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
    )
    return version(done.stdout) if done.returncode == 0 else (0, 0)


def _family_is_web() -> bool:
    """Whether tools have to come from Debian's `-web` Rust, which conflicts with its plain one.

    They do unless the plain rustc is what serves here.
    """
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Version}", "rustc"],
        capture_output=True,
        text=True,
        check=False,
    )
    return not (shown.stdout.startswith("ii") and version(shown.stdout) >= rust_floor())


def _candidate(package: str) -> tuple[int, ...]:
    shown = subprocess.run(
        ["apt-cache", "policy", package],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    found = re.search(r"Candidate: (\S+)", shown.stdout)
    return version(found[1]) if found else (0, 0)


def main(arguments: list[str]) -> int:
    recipes = [argument for argument in arguments if not argument.startswith("-")]
    if "--explain" in arguments:
        names = missing(recipes)
        print(explain(names) if names else "", file=sys.stderr)
        return 0 if names else 1
    ensure(recipes)
    return 0


if __name__ == "__main__":
    entry(main)
