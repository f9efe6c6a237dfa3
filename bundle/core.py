# SPDX-License-Identifier: GPL-3.0-or-later
"""The core for a target, compiled in the Debian 13 tree and kept by the content of what goes into it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bundle import crates, python, trees
from bundle.files import mirror
from image.arch import ARCHES, Arch
from image.debian import lock
from image.run import BuildError, run
from image.toolroot import ToolRoot
from tools import fetch, system
from tools.cache import ROOT, locked, say

SOURCES = (
    "Cargo.toml", "Cargo.lock", "third_party.toml", "core", "requirements/build.txt",
    "tools/__init__.py", "tools/apt.py", "tools/cache.py", "tools/fetch.py", "tools/pjsip.py",
)  # fmt: skip
NOT_SOURCES = {
    "target",
    "tests",
    "examples",
    "reference",
    "corpus",
    "finds",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
}

THIRD_PARTY = ("pjproject", "libsrtp2", "silero_vad")
JOBS = "2"
FACTS = "facts.json"


@dataclass(frozen=True)
class Core:
    """What compiling left: package and library, what is linked in, and the debug information taken out."""

    folder: Path

    @property
    def site(self) -> Path:
        """Folder with the package ``voicecore``, as installed."""
        return self.folder / "site"

    @property
    def debug(self) -> Path:
        """Debug information of the library, for crashes and profiles; not shipped."""
        return self.folder / "debug"

    def crates(self) -> list[crates.Crate]:
        """The crates that are linked in."""
        return [crates.Crate(**item) for item in self._facts()["crates"]]

    @property
    def rust(self) -> str:
        """Version of the compiler, and so of Rust's standard library."""
        return str(self._facts()["rust"])

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / FACTS).read_text())
        return facts

    def licences(self) -> Path:
        """Folder with a folder of licence texts for each crate and each C library."""
        return self.folder / "licenses"


def build(arch: Arch, base: Path) -> Core:
    """Return the core for ``arch``, compiled below ``base`` when none of this content is kept there."""
    key = _key(arch)
    core = Core(base / "core" / f"{arch.name}-{key}")
    if (core.folder / FACTS).exists():
        return core
    # Both architectures and all checkouts share the work folder: what did not change is not compiled again.
    with locked(base / "compile.lock", "compiling the core of the bundle"):
        if not (core.folder / FACTS).exists():
            _compile(arch, base, core.folder)
    return core


def made(arch: Arch, base: Path) -> Core | None:
    """The core for ``arch`` if this content of the checkout was compiled already."""
    core = Core(base / "core" / f"{arch.name}-{_key(arch)}")
    return core if (core.folder / FACTS).exists() else None


def _key(arch: Arch) -> str:
    digest = hashlib.sha256(arch.name.encode())
    for target, machine in (("build", trees.BUILDER), ("sysroot", ARCHES["aarch64"])):
        digest.update(lock.lock_file(target, machine).read_bytes())
    ours = Path(__file__).resolve().parent
    for path in [*_sources(), ours / "core.py", ours / "crates.py"]:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    """Every file that goes into the core."""
    found = []
    for name in SOURCES:
        if (ROOT / name).is_file():
            found.append(ROOT / name)
        for folder, folders, files in os.walk(ROOT / name):
            folders[:] = [entry for entry in folders if entry not in NOT_SOURCES]
            found += [Path(folder, file) for file in files if not file.endswith((".pyc", ".so"))]
    return sorted(found)


def _compile(arch: Arch, base: Path, result: Path) -> None:
    work = base / "compile"
    tools = trees.compiling(work)
    mirror({path.relative_to(ROOT): path for path in _sources()}, work / "src")
    third = {
        Path(pinned.file): fetch.fetch(name)
        for name, pinned in fetch.load().items()
        if name in THIRD_PARTY
    }
    mirror(third, work / "sources")
    _vendor(work)
    _maturin(work)
    triple = trees.TRIPLES[arch.name]
    environment = _environment(arch, triple)
    say(f"{arch.name}: PJSIP and libsrtp")
    host = [] if arch is trees.BUILDER else ["--host", f"{arch.name}-linux-gnu"]
    printed = _inside(tools, ["python3", "-B", "-m", "tools.pjsip", *host], environment)
    environment["VC_PJSIP_PREFIX"] = printed.strip().splitlines()[-1]
    model = next(path for path in third if path.suffix == ".onnx")
    environment["VC_SILERO_ONNX"] = f"/work/sources/{model}"
    say(f"{arch.name}: the core (release)")
    wheels = work / "wheels" / arch.name
    shutil.rmtree(wheels, ignore_errors=True)
    command = ["/work/maturin/bin/maturin", "build", "--release", "--locked", "--offline"]
    command += ["--auditwheel", "skip", "--compatibility", "linux", "--target", triple]
    command += ["--manifest-path", "core/python/Cargo.toml"]
    _inside(tools, [*command, "--out", f"/work/wheels/{arch.name}"], environment)
    linked = crates.linked(
        lambda words: _inside(tools, words, environment),
        triple,
        crates.checksums(work / "src/Cargo.lock"),
    )
    _unpack(next(wheels.glob("*.whl")), wheels / "site")
    _strip(tools, arch, wheels)
    part = result.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    for name in ("site", "debug"):
        shutil.copytree(wheels / name, part / name)
    crates.licences(linked, work / "vendor", part / "licenses")
    _third_party_licences(tools, third, part / "licenses")
    rust = _inside(tools, ["rustc", "--version"], environment).split()[1]
    (part / FACTS).write_text(
        json.dumps({"rust": rust, "crates": [asdict(crate) for crate in linked]}, indent=1)
    )
    shutil.rmtree(result, ignore_errors=True)
    part.rename(result)


def _environment(arch: Arch, triple: str) -> dict[str, str]:
    environment = {
        "CARGO_HOME": "/work/cargo",
        "CARGO_TARGET_DIR": "/work/target",
        "CARGO_BUILD_JOBS": JOBS,
        "CARGO_NET_OFFLINE": "true",
        "XDG_CACHE_HOME": "/work/cache",
        "VOICE_EDGE_SOURCES": "/work/sources",
    }
    if arch is not trees.BUILDER:
        gcc = f"{arch.name}-linux-gnu-gcc"
        environment[f"CC_{triple.replace('-', '_')}"] = gcc
        environment[f"AR_{triple.replace('-', '_')}"] = f"{arch.name}-linux-gnu-ar"
        environment[f"CARGO_TARGET_{triple.replace('-', '_').upper()}_LINKER"] = gcc
    return environment


def _inside(tools: ToolRoot, command: list[str], environment: dict[str, str]) -> str:
    return tools.run(["env", "-C", "/work/src", *command], env=environment)


def _vendor(work: Path) -> None:
    """The crates of Cargo.lock as sources, by the host's cargo: the tree has no network."""
    mark = work / "vendored"
    wanted = hashlib.sha256((ROOT / "Cargo.lock").read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    say("crates of Cargo.lock: fetching")
    shutil.rmtree(work / "vendor", ignore_errors=True)
    path = system.rust_path()
    cargo = shutil.which("cargo", path=path)
    if cargo is None:
        raise BuildError("no cargo on the PATH: `./justw bundle` installs one")
    command = [
        cargo,
        "vendor",
        "--quiet",
        "--locked",
        "--versioned-dirs",
        "--respect-source-config",
    ]
    # From the copy: what others write in the checkout meanwhile does not get in between.
    run([*command, str(work / "vendor")], cwd=work / "src", env={**os.environ, "PATH": path})
    settings = work / "cargo" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n\n[source.vendored]\ndirectory = "/work/vendor"\n'
    )
    mark.write_text(wanted)


def _maturin(work: Path) -> None:
    python.install("build", trees.BUILDER, work / "maturin")


def _third_party_licences(tools: ToolRoot, third: dict[Path, Path], into: Path) -> None:
    for name, member in (("pjproject", "COPYING"), ("libsrtp2", "LICENSE")):
        archive = next(path for path in third.values() if path.name.startswith(name))
        folder = into / name
        folder.mkdir(parents=True)
        command: list[str | Path] = [
            "tar",
            "--extract",
            "--to-stdout",
            "--file",
            archive,
            "--no-wildcards-match-slash",
        ]
        text = run([*command, "--wildcards", f"*/{member}"])
        (folder / member).write_text(text)
    rust = into / "rust-std"
    rust.mkdir()
    shutil.copyfile(tools.root / "usr/share/doc/libstd-rust-web-dev/copyright", rust / "copyright")


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def _strip(tools: ToolRoot, arch: Arch, wheels: Path) -> None:
    """Move the library's debug information (most of its size) to a file that a debugger finds by the build id."""
    library = next(wheels.glob("site/voicecore/*.so"))
    (wheels / "debug").mkdir()
    inside = f"/work/{library.relative_to(tools.work)}"
    debug = f"/work/wheels/{arch.name}/debug/{library.name}.debug"
    objcopy = f"{arch.name}-linux-gnu-objcopy"
    tools.run([objcopy, "--only-keep-debug", inside, debug])
    tools.run([objcopy, "--strip-debug", f"--add-gnu-debuglink={debug}", inside])
