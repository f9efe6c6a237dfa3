# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose work is in a bundle: every file is traced to a component, and each component brings its licence texts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from bundle.core import Core
from image import emulation
from image.arch import Arch
from image.run import BuildError
from image.toolroot import ToolRoot
from tools import fetch
from tools.cache import ROOT

DEBIAN_LICENCES = {
    "libbz2-1.0": "bzip2-1.0.6",
    "libexpat1": "MIT",
    "libffi8": "MIT",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "liblzma5": "0BSD",
    "libpython3.13": "PSF-2.0",
    "libssl3t64": "Apache-2.0",
    "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libuuid1": "BSD-3-Clause",
    "libzstd1": "BSD-3-Clause OR GPL-2.0-only",
    "zlib1g": "Zlib",
}
"""Of the libraries themselves; their Debian packages hold more, see each copyright file."""
SPDX = {"Apache 2.0": "Apache-2.0", "Apache 2": "Apache-2.0", "MIT License": "MIT"}
"""What older Python packages state, in SPDX's words."""
TEXTS_HERE = Path(__file__).with_name("licenses")
COMMON = "usr/share/common-licenses"
TEXTS = ("LICEN", "COPYING", "NOTICE", "AUTHORS")
PYTHON_PACKAGES = (
    "libpython3.13",
    "libpython3.13-stdlib",
    "libpython3.13-minimal",
    "python3.13-minimal",
)


@dataclass(frozen=True)
class Component:
    """One entry of the bill of materials."""

    name: str
    version: str
    kind: str
    """CycloneDX's component type."""
    licence: str
    purl: str
    texts: tuple[Path, ...]
    """Licence texts: files, or folders of them."""
    sha256: str = ""


def components(
    bundle: Path, core: Core, site: Path, tools: ToolRoot, arch: Arch
) -> list[Component]:
    """Everything inside ``bundle``, sorted; raises BuildError for a file that nobody answers for."""
    found = [*_debian(bundle, site, tools, arch), *_python(site), *_rust(core), *_third_party(core)]
    found += [_pyinstaller(tools.work / "pyinstaller"), _libuv(tools, arch)]
    return sorted(found, key=lambda component: (component.name.lower(), component.version))


def lay_licences(wanted: list[Component], folder: Path, root: Path) -> None:
    """Copy every component's licence texts to ``folder``/NAME-VERSION/, and our own to the top.

    Debian's files refer to the common licences of a Debian tree, ``root``: those are copied too.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    for component in wanted:
        target = (
            folder / f"{component.name}-{component.version.replace('/', '_').replace(':', '_')}"
        )
        target.mkdir()
        for text in component.texts:
            if text.is_dir():
                shutil.copytree(text, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(text, target / text.name)
        if not any(target.iterdir()):
            raise BuildError(f"{component.name} {component.version} has no licence text")
    named = set()
    for text in folder.glob("*/copyright"):
        named |= set(re.findall(rf"{COMMON}/([A-Za-z0-9.+-]*[A-Za-z0-9])", text.read_text()))
    (folder / "common-licenses").mkdir()
    for name in sorted(named):
        # "GPL" and the like are links to their newest version.
        shutil.copyfile((root / COMMON / name).resolve(), folder / "common-licenses" / name)


def _debian(bundle: Path, site: Path, tools: ToolRoot, arch: Arch) -> Iterator[Component]:
    """The packages of the Debian tree whose libraries PyInstaller took in, CPython among them."""
    owners = _owners(tools.root)
    ours = {path.name for path in site.rglob("*.so*")}
    taken = set()
    for path in sorted(bundle.rglob("*")):
        if path.is_dir() or path.is_symlink() or ".so" not in path.name or path.name in ours:
            continue
        if path.name not in owners:
            where = path.relative_to(bundle)
            raise BuildError(
                f"{where}: neither a package of the Debian tree nor a wheel holds such a file"
            )
        taken.add(owners[path.name])
    versions = _versions(tools.root)
    for package in sorted({"libpython3.13" if name in PYTHON_PACKAGES else name for name in taken}):
        if package not in DEBIAN_LICENCES:
            raise BuildError(
                f"{package} is in the bundle now: state its licence in {Path(__file__).name}"
            )
        version, source = versions[package]
        text = tools.root / "usr/share/doc" / package / "copyright"
        purl = f"pkg:deb/debian/{package}@{_quoted(version)}?arch={arch.debian}&distro=debian-13"
        if source != package:
            purl += f"&upstream={_quoted(source)}"
        yield Component(
            package,
            version,
            "library",
            DEBIAN_LICENCES[package],
            purl,
            (_within(tools.root, text),),
        )


def _within(root: Path, path: Path) -> Path:
    """``path`` with links in its folders followed inside ``root``."""
    folder = path.parent
    if folder.is_symlink():
        folder = folder.parent / folder.readlink()
    return folder / path.name


def _owners(root: Path) -> dict[str, str]:
    """Package by the base name of each shared library."""
    found = {}
    for listing in sorted((root / "var/lib/dpkg/info").glob("*.list")):
        for line in listing.read_text().splitlines():
            if ".so" in line:
                found[line.rsplit("/", 1)[-1]] = listing.stem.split(":")[0]
    return found


def _versions(root: Path) -> dict[str, tuple[str, str]]:
    """Version and source package of every installed package."""
    found = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if fields["Package"]:
            source = (fields["Source"] or fields["Package"]).split()[0]
            found[fields["Package"]] = (fields["Version"], source)
    return found


def _quoted(text: str) -> str:
    return text.replace("+", "%2B").replace(":", "%3A").replace("~", "~")


def _python(site: Path) -> Iterator[Component]:
    for folder in sorted(site.glob("*.dist-info")):
        if not folder.name.startswith("voicecore-"):
            yield _distribution(folder)


def _pyinstaller(site: Path) -> Component:
    """Its loader is the program, and some of its modules are in there."""
    return _distribution(
        next(site.glob("pyinstaller-*.dist-info")), "GPL-2.0-or-later WITH Bootloader-exception"
    )


def _libuv(tools: ToolRoot, arch: Arch) -> Component:
    """Inside uvloop's wheel, which names neither its version nor its licence."""
    ask = "import uvloop.loop; print(uvloop.loop.libuv_get_version())"
    environment = {
        "PYTHONPATH": "/work/site",
        "PYTHONDONTWRITEBYTECODE": "1",
        **emulation.environment(arch),
    }
    number = int(tools.run(["python3", "-c", ask], env=environment))
    version = f"{number >> 16}.{number >> 8 & 0xFF}.{number & 0xFF}"
    return Component(
        "libuv",
        version,
        "library",
        "MIT",
        f"pkg:github/libuv/libuv@v{version}",
        (TEXTS_HERE / "libuv.txt",),
    )


def _distribution(folder: Path, licence: str = "") -> Component:
    fields = HeaderParser().parsestr((folder / "METADATA").read_text())
    name, version = fields["Name"].lower().replace("_", "-"), fields["Version"]
    texts = sorted(
        path for path in folder.rglob("*") if path.name.upper().startswith(TEXTS) and path.is_file()
    )
    stated = licence or fields["License-Expression"] or fields["License"] or _classified(fields)
    stated = SPDX.get(stated, stated)
    return Component(name, version, "library", stated, f"pkg:pypi/{name}@{version}", tuple(texts))


def _classified(fields: Message) -> str:
    classifiers = fields.get_all("Classifier") or []
    return " AND ".join(
        line.rsplit(" :: ", 1)[-1] for line in classifiers if line.startswith("License ::")
    )


def _rust(core: Core) -> Iterator[Component]:
    for crate in core.crates():
        text = core.licences() / f"{crate.name}-{crate.version}"
        purl = f"pkg:cargo/{crate.name}@{crate.version}"
        yield Component(
            crate.name,
            crate.version,
            "library",
            _modern(crate.licence),
            purl,
            (text,),
            crate.sha256,
        )
    version = core.rust
    text = core.licences() / "rust-std"
    yield Component(
        "rust-std",
        version,
        "library",
        "MIT OR Apache-2.0",
        f"pkg:generic/rust-std@{version}",
        (text,),
    )


def _modern(licence: str) -> str:
    """Cargo's old way of writing a choice, as an SPDX expression."""
    return licence.replace("/", " OR ")


def _third_party(core: Core) -> Iterator[Component]:
    pinned = fetch.load()
    rows = (
        ("pjproject", "pkg:github/pjsip/pjproject@{}", "library", core.licences() / "pjproject"),
        ("libsrtp2", "pkg:github/cisco/libsrtp@v{}", "library", core.licences() / "libsrtp2"),
        (
            "silero_vad",
            "pkg:generic/silero-vad@{}",
            "machine-learning-model",
            TEXTS_HERE / "silero-vad.txt",
        ),
    )
    for name, purl, kind, text in rows:
        entry = pinned[name]
        yield Component(
            name,
            entry.version,
            kind,
            entry.licence,
            purl.format(entry.version),
            (text,),
            entry.sha256,
        )
