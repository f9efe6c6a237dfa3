# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the pinned libsrtp and PJSIP into the user-level cache and prints the prefix.

    python3 -m tools.pjsip [--host TRIPLE] [--variant NAME]

``--host`` cross-compiles, such as for ``aarch64-linux-gnu`` with ``aarch64-linux-gnu-gcc`` and that architecture's
OpenSSL and libuuid where this compiler looks for them (Debian's multi-arch folders). ``--variant fuzz`` builds what
``tools.fuzz`` links: the same sources and settings under sanitizers. ``--variant pjsua`` has pjsua-lib beside, for
the baseline of ``tools.bench``.

The prefix holds ``include/``, ``lib/*.a`` and ``lib/link.txt`` (link flags in order, one a line).
Its name is a hash over all that goes in: sources, patches, config_site.h, flags, machine, compiler,
OpenSSL. Built once, then found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cache import ROOT, cache_dir, locked, say
from tools.fetch import FetchError, fetch, load

CRATE = ROOT / "core" / "pjsip"
# Raise it when this file changes what it builds in a way that the other parts of the key do not show.
RECIPE = "1"
NEEDED = (
    ("make", "make"),
    ("patch", "patch"),
    ("ar", "binutils"),
)
HEADERS = (
    ("openssl/ssl.h", "libssl-dev"),
    ("uuid/uuid.h", "uuid-dev"),
)
SRTP_FLAGS = ("--enable-openssl",)
PJ_FLAGS = (
    "--disable-pjsua2",
    *(
        f"--disable-{name}"
        for name in (
            "video sound v4l2 sdl ffmpeg openh264 vpx opus silk opencore-amr bcg729 lyra upnp speex-codec "
            "speex-aec gsm-codec ilbc-codec g7221-codec l16-codec resample libwebrtc libyuv"
        ).split()
    ),
    "--enable-epoll",
    "--with-external-srtp",
)
# Cross-compiling, configure looks for OpenSSL only when it is named; the compiler finds the right one by itself.
PJ_CROSS_FLAGS = ("--with-ssl=/usr",)
CFLAGS = "-O2 -fPIC"
# In link order. libpjsua is left out on purpose (docs/adr/0002).
ARCHIVES = ("pjsip-ua", "pjsip-simple", "pjsip", "pjmedia", "pjnath", "pjlib-util", "pj")
SYSTEM_LIBRARIES = ("ssl", "crypto", "uuid", "m", "pthread")
INCLUDES = ("pjlib", "pjlib-util", "pjnath", "pjmedia", "pjsip")


@dataclass(frozen=True)
class Variant:
    """Another way to compile the same sources, for programs that never ship."""

    compiler: str
    cxx: str
    cflags: str
    parts: tuple[tuple[str, ...], ...]
    """Folder and make targets of what is built, in order; all else is left out."""
    archives: tuple[str, ...] = ()
    """Archives beside those that the core links."""


SANITIZERS = (
    # bounds finds what address cannot see: an index past an array inside of a structure.
    "-fsanitize=address,bounds,fuzzer-no-link -fno-sanitize-recover=bounds -fno-omit-frame-pointer"
)
VARIANTS = {
    "fuzz": Variant(
        "clang",
        "clang++",
        # Each piece of a pool is an allocation of its own: otherwise neither overruns nor uses after release show.
        f"-O1 -fPIC -gline-tables-only {SANITIZERS} -DPJ_POOL_DEBUG=1",
        (
            ("pjlib", "lib"),
            ("pjlib-util", "lib"),
            ("pjnath", "lib"),
            ("pjmedia", "pjmedia"),
            ("pjsip", "pjsip", "pjsip-simple", "pjsip-ua"),
        ),
    ),
    "pjsua": Variant(
        "cc",
        "c++",
        f"{CFLAGS} -DPJSUA_MAX_CALLS=2048 -DPJSUA_MAX_CONF_PORTS=8192",
        ((".", "lib"),),
        ("pjsua", "pjmedia-codec", "pjmedia-audiodev"),
    ),
}


class BuildError(Exception):
    """A step failed; the text names the step, the log and the remedy."""


def build(host: str | None = None, variant: str | None = None) -> Path:
    """Return the prefix for this machine, or for ``host``, building it first when it is not there."""
    other = VARIANTS[variant] if variant else None
    compiler = _compiler(host, other)
    prefix = cache_dir() / "pjsip" / _key(compiler, host, other)
    if _complete(prefix):
        return prefix
    with locked(prefix.with_suffix(".lock"), "PJSIP"):
        if not _complete(prefix):
            _build_into(prefix, compiler, host, other)
    return prefix


def _complete(prefix: Path) -> bool:
    return (prefix / "lib" / "link.txt").is_file()


def _compiler(host: str | None, variant: Variant | None) -> str:
    # With a host, CC would be the compiler of this machine's own programs.
    own = f"{host}-gcc" if host else os.environ.get("CC") or "cc"
    compiler = variant.compiler if variant else own
    missing = [package for tool, package in NEEDED if shutil.which(tool) is None]
    if shutil.which(compiler.split()[0]) is None:
        missing.insert(0, f"gcc-{host}" if host else "gcc" if compiler == "cc" else compiler)
    else:
        for header, package in HEADERS:
            probe = subprocess.run(
                [*compiler.split(), "-E", "-x", "c", "-"],
                input=f"#include <{header}>\n",
                capture_output=True,
                text=True,
                check=False,
            )
            if probe.returncode != 0:
                missing.append(f"{package} for {host}" if host else package)
    if missing:
        raise BuildError(
            f"PJSIP needs these to build; install them: apt-get install {' '.join(missing)}"
        )
    return compiler


def _key(compiler: str, host: str | None, variant: Variant | None) -> str:
    pinned = load()
    parts = [
        RECIPE,
        pinned["pjproject"].sha256,
        pinned["libsrtp2"].sha256,
        " ".join((*SRTP_FLAGS, *PJ_FLAGS, CFLAGS)),
        host or platform.machine(),
        compiler,
        _output([*compiler.split(), "-v"]),
        _openssl_version(compiler),
        (CRATE / "config_site.h").read_text(),
        *(f"{path.name}\n{path.read_text()}" for path in _patches()),
        *([repr(variant)] if variant else []),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:20]


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


def _openssl_version(compiler: str) -> str:
    done = subprocess.run(
        [*compiler.split(), "-E", "-P", "-x", "c", "-"],
        input="#include <openssl/opensslv.h>\nOPENSSL_VERSION_STR\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def _patches() -> list[Path]:
    return sorted((CRATE / "patches").glob("*.patch"))


def _build_into(prefix: Path, compiler: str, host: str | None, variant: Variant | None) -> None:
    pjproject, srtp = fetch("pjproject"), fetch("libsrtp2")
    log = prefix.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    jobs = f"-j{os.cpu_count() or 1}"
    started = time.monotonic()
    log.write_text("")
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix="build-") as scratch:
        work = Path(scratch)
        stage = work / "stage"
        steps = _Steps(log=log, env=_environment(compiler, host, stage, variant))
        configure = ["./configure", f"--prefix={stage}", *([f"--host={host}"] if host else [])]
        srtp_tree = unpack(srtp, work / "srtp")
        steps.run("libsrtp: configure", srtp_tree, [*configure, *SRTP_FLAGS])
        steps.run("libsrtp: compile", srtp_tree, ["make", jobs, "libsrtp2.a"])
        steps.run("libsrtp: install", srtp_tree, ["make", "install"])
        tree = unpack(pjproject, work / "pjproject")
        for patch in _patches():
            steps.run(f"PJSIP: {patch.name}", tree, ["patch", "-p1", "--input", str(patch)])
        shutil.copyfile(CRATE / "config_site.h", tree / "pjlib/include/pj/config_site.h")
        cross = PJ_CROSS_FLAGS if host else ()
        steps.run("PJSIP: configure", tree, [*configure, *PJ_FLAGS, *cross])
        _check_tls(tree, log)
        for folder, *targets in variant.parts if variant else ((".", "lib"),):
            step = "PJSIP: compile" if folder == "." else f"PJSIP: compile {folder}"
            where = tree if folder == "." else tree / folder / "build"
            steps.run(step, where, ["make", jobs, *targets])
        archives = (*variant.archives, *ARCHIVES) if variant else ARCHIVES
        _install(tree, stage, (host or platform.machine()).split("-")[0], archives)
        shutil.rmtree(prefix, ignore_errors=True)
        stage.rename(prefix)
    say(f"PJSIP: built in {time.monotonic() - started:.0f} s")


def _check_tls(tree: Path, log: Path) -> None:
    """PJSIP's configure goes on without TLS when it does not find OpenSSL, and only its output tells."""
    chosen = (tree / "pjlib/include/pj/compat/os_auto.h").read_text()
    if "#define PJ_HAS_SSL_SOCK 1" not in chosen:
        raise BuildError(f"PJSIP: configure found no OpenSSL to link with; see {log}")


class _Steps:
    """Runs the steps of a build, one progress line each, their output in one log."""

    def __init__(self, log: Path, env: dict[str, str]) -> None:
        self._log = log
        self._env = env

    def run(self, what: str, folder: Path, command: Sequence[str]) -> None:
        """Run one step. Raises BuildError with the end of the log."""
        started = time.monotonic()
        with self._log.open("a") as sink:
            sink.write(f"\n== {what}: {' '.join(command)}\n")
            sink.flush()
            done = subprocess.run(
                command,
                cwd=folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            tail = "\n  ".join(self._log.read_text(errors="replace").splitlines()[-8:])
            raise BuildError(
                f"{what} failed (exit {done.returncode}); full log: {self._log}\n  {tail}"
            )
        say(f"{what}: {time.monotonic() - started:.0f} s")


def _environment(
    compiler: str, host: str | None, stage: Path, variant: Variant | None
) -> dict[str, str]:
    # MAKEFLAGS of a make around us would hand its job server down.
    env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS")}
    env.update(
        CC=compiler,
        CFLAGS=f"{variant.cflags if variant else CFLAGS} -DNDEBUG -I{stage}/include",
        LDFLAGS=f"-L{stage}/lib",
        LC_ALL="C.UTF-8",
    )
    if variant:
        env.update(CXX=variant.cxx)
    if host:
        env.update(AR=f"{host}-ar", RANLIB=f"{host}-ranlib")
    return env


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a source archive and return its one top folder."""
    into.mkdir()
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(into, filter="data")
        else:
            tar.extractall(into)
    folders = [path for path in into.iterdir() if path.is_dir()]
    if len(folders) != 1:
        raise BuildError(f"{archive}: one folder at the top expected, {len(folders)} found")
    return folders[0]


def _install(tree: Path, stage: Path, machine: str, archives: Sequence[str]) -> None:
    """Lay headers and archives out under plain names, and write link.txt last: it marks completeness."""
    for part in INCLUDES:
        shutil.copytree(tree / part / "include", stage / "include", dirs_exist_ok=True)
    library = stage / "lib"
    flags: list[str] = []
    for name in archives:
        found = [path for path in tree.glob(f"*/lib/lib{name}-*.a") if _plain(path, name, machine)]
        if len(found) != 1:
            raise BuildError(f"lib{name} was not built: {[path.name for path in found]}")
        shutil.copyfile(found[0], library / f"lib{name}.a")
        flags.append(f"-l{name}")
    flags.append("-lsrtp2")
    flags += [f"-l{name}" for name in SYSTEM_LIBRARIES]
    shutil.rmtree(library / "pkgconfig", ignore_errors=True)
    for shared in library.glob("*.so*"):
        shared.unlink()
    (library / "link.txt").write_text("\n".join(flags) + "\n")


def _plain(path: Path, name: str, machine: str) -> bool:
    """Whether it is lib<name>-<target>.a and not lib<name>-<something>-<target>.a."""
    return path.name.removeprefix(f"lib{name}-").startswith(machine)


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tools.pjsip", description="Build libsrtp and PJSIP.")
    parser.add_argument("--host", metavar="TRIPLE", help="for another machine: aarch64-linux-gnu")
    parser.add_argument("--variant", choices=sorted(VARIANTS), help="for another purpose")
    try:
        options = parser.parse_args(arguments)
        print(build(options.host, options.variant))
    except (BuildError, FetchError, OSError) as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
