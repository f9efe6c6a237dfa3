# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows what can be shown of the Buildroot provider without building: one line a check, `just image-verify buildroot`.

A full build takes 4 to 5 CPU-hours and sources from upstream. What goes wrong without anybody noticing is elsewhere:
symbols that Kconfig drops, programs that nothing brings, an overlay or layout that is not the one that was tried.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from image.arch import ARCHES, Arch
from image.buildroot import called, checkout, compose, contract, kconfig, kernel, sbom
from image.buildroot.checking import NotHere, none_of
from image.buildroot.pins import COMMIT, TAG
from image.disk import initrd
from image.run import BuildError, run
from tools.cache import ROOT, say

WORK = ROOT / "out/build/verify-buildroot"


@dataclass
class Verification:
    """What the checks share; each part is made when first asked for."""

    tree: Path
    work: Path = WORK
    results: list[tuple[str, bool | None]] = field(default_factory=list)

    @cached_property
    def configs(self) -> dict[str, dict[str, str]]:
        """Symbols of Buildroot's .config, by architecture."""
        found = {}
        for arch in ARCHES.values():
            self.make(arch, compose.defconfig(arch.name).name)
            found[arch.name] = kconfig.settings((self.output(arch) / ".config").read_text())
        return found

    @cached_property
    def kernel_source(self) -> tuple[Path, str]:
        """Kconfig files of a 6.12 and the Debian version they are of."""
        return kernel.source()

    @cached_property
    def kernel_configs(self) -> dict[str, str]:
        """The kernel's .config with our fragments, by architecture."""
        tree, _ = self.kernel_source
        return {
            arch.name: kernel.configured(arch, tree, self.work / f"kernel-{arch.name}")
            for arch in ARCHES.values()
        }

    def output(self, arch: Arch) -> Path:
        """Buildroot's output folder for ``arch``."""
        path = self.work / arch.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def make(self, arch: Arch, *targets: str) -> str:
        """Run quick targets of Buildroot's make."""
        downloads = self.work / "dl"
        downloads.mkdir(parents=True, exist_ok=True)
        return checkout.make(self.tree, self.output(arch), targets, downloads)

    def check(self, name: str, what: Callable[[], str], remedy: str) -> None:
        """Run one check and print its line; ``what`` returns the detail, raises BuildError for a fault."""
        try:
            detail = what()
        except NotHere as why:
            self.results.append((name, None))
            print(f"skipped  {name}: {why}", flush=True)
        except BuildError as fault:
            self.results.append((name, False))
            print(f"FAILED   {name}: {fault}\n         remedy: {remedy}", flush=True)
        else:
            self.results.append((name, True))
            print(f"ok       {name}: {detail}", flush=True)

    def checkout(self) -> str:
        """The checkout is the pinned release."""
        fault = checkout.difference(self.tree)
        if fault:
            raise BuildError(fault)
        return f"{TAG}, every file as in commit {COMMIT[:12]}"

    def in_step(self) -> str:
        """The defconfigs are what the fragments say."""
        if stale := compose.stale():
            raise BuildError(f"{', '.join(stale)}: not what fragments/ say")
        return f"{len(ARCHES)} made of {len(ARCHES) + 1} fragments"

    def defconfig(self, arch: Arch) -> str:
        """Every line of a defconfig is in the .config that Buildroot makes of it."""
        wanted = kconfig.wishes(compose.defconfig(arch.name).read_text())
        _ = self.configs
        text = (self.output(arch) / ".config").read_text()
        gone = kconfig.lost(wanted, text)
        seen = set(text.splitlines())
        # An "is not set" whose symbol is unknown or out of reach says nothing: it has to stand there too.
        gone += [
            f"{wish.line}: no such choice here"
            for wish in wanted
            if wish.value is None and wish.line not in seen
        ]
        none_of(gone)
        return f"all {len(wanted)} lines survive `make {compose.defconfig(arch.name).name}`"

    def legacy(self) -> str:
        """No symbol that Buildroot only keeps to point at its successor."""
        none_of(
            [
                f"{arch}: BR2_LEGACY"
                for arch, config in self.configs.items()
                if "BR2_LEGACY" in config
            ]
        )
        return "no symbol of an older release"

    def fragments(self, arch: Arch) -> str:
        """Every line of the kernel fragments survives the kernel's own merge."""
        wanted = kernel.wanted(arch)
        none_of(kconfig.lost(wanted, self.kernel_configs[arch.name]))
        _, version = self.kernel_source
        where = f"ARCH={kernel.KERNEL_ARCH[arch.name]} defconfig"
        return f"all {len(wanted)} lines survive on {where} of linux-source-6.12 {version}"

    def kernel_line(self) -> str:
        """Buildroot's kernel is of the line that the fragments were tried on."""
        tree, _ = self.kernel_source
        tried = kernel.version(tree)
        ours = {
            config.get("BR2_LINUX_KERNEL_VERSION", "none").strip('"')
            for config in self.configs.values()
        }
        none_of(
            [
                f"Buildroot builds {version}, tried on {tried}"
                for version in ours
                if _line(version) != _line(tried)
            ]
        )
        return f"Buildroot builds {', '.join(ours)}, fragments tried on {tried}"

    def drivers(self) -> str:
        """Drivers that the shared initrd loads by name are in the kernel."""
        tree, _ = self.kernel_source
        makes = kernel.drivers(tree)
        for arch in ARCHES:
            none_of(
                [
                    f"{arch}: {name}"
                    for name in kernel.missing_drivers(
                        kconfig.settings(self.kernel_configs[arch]), makes
                    )
                ]
            )
        count = len({*initrd.MODULES, *initrd.DISKS} - initrd.OPTIONAL)
        return f"all {count} that it cannot do without, both architectures"

    def lint(self) -> str:
        """Buildroot's own lint of packages, configuration and scripts."""
        files = [
            path
            for path in sorted(checkout.EXTERNAL.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        said = run(
            ["/usr/bin/python3", self.tree / "utils/check-package", "--br2-external", *files],
            env=checkout.environment(self.work),
            # flake8 takes Buildroot's own settings from here.
            cwd=self.tree,
        )
        return f"check-package clean on {len(files)} files" + (
            f" ({said.strip()})" if said.strip() else ""
        )

    def bill(self, arch: Arch) -> str:
        """The bill of materials of the image."""
        _ = self.configs
        info = self.make(arch, "show-info")
        path = ROOT / "out/image" / f"buildroot-{arch.name}.cdx.json"
        count = sbom.write(info, path, self.tree, self.work / "dl")
        return f"{count} components in {path.relative_to(ROOT)}"

    def hashes(self) -> str:
        """Every source has a hash in the checkout, since BR2_DOWNLOAD_FORCE_CHECK_HASHES refuses one without."""
        known = {
            words[-1]
            for path in self.tree.rglob("*.hash")
            for line in path.read_text().splitlines()
            if len(words := line.split()) == 3
        }
        wanted = set()
        for arch in ARCHES.values():
            _ = self.configs
            for package in json.loads(self.make(arch, "show-info")).values():
                wanted |= {
                    load["source"]
                    for load in package.get("downloads", ())
                    if not load["uris"][0].startswith("local+")
                }
        none_of([f"{name}: no hash" for name in sorted(wanted - known)])
        return f"all {len(wanted)} sources of both architectures have one"

    def symbols(self, arch: str) -> set[str]:
        """Every symbol that is on, Buildroot's and the kernel's."""
        return {*self.configs[arch], *kconfig.settings(self.kernel_configs[arch])}


def _line(version: str) -> list[str]:
    return version.split(".")[:2]


def main() -> int:
    """Run every check; 0 when none failed."""
    try:
        tree = checkout.named()
    except BuildError as error:
        print(f"image-verify buildroot: {error}", file=sys.stderr)
        return 2
    started = time.monotonic()
    one = Verification(tree)
    say("image-verify buildroot: nothing is built here; about two minutes, the first time longer")
    checks(one)
    failed = [name for name, good in one.results if good is False]
    passed = sum(good is True for _, good in one.results)
    took = time.monotonic() - started
    skipped = len(one.results) - passed - len(failed)
    print(f"\n{passed} ok, {len(failed)} failed, {skipped} skipped, in {took:.0f} s")
    return 1 if failed else 0


def checks(one: Verification) -> None:
    """Every check in order, with what to do about each."""
    one.check(
        "checkout",
        one.checkout,
        f"check out commit {COMMIT} of Buildroot into BUILDROOT_DIR, unchanged",
    )
    one.check("defconfigs in step", one.in_step, "python3 -m image.buildroot.compose")
    for arch in ARCHES.values():
        one.check(
            f"defconfig {arch.name}",
            lambda arch=arch: one.defconfig(arch),  # type: ignore[misc]
            "look the symbol up in Buildroot's menuconfig: renamed, or something that it depends on is off",
        )
    one.check(
        "no legacy symbols",
        one.legacy,
        "`make menuconfig`, Legacy config options, names the successors",
    )
    for arch in ARCHES.values():
        one.check(
            f"kernel fragments {arch.name}",
            lambda arch=arch: one.fragments(arch),  # type: ignore[misc]
            "look the symbol up in the kernel's menuconfig; image/buildroot/kernel/ holds the fragments",
        )
    one.check(
        "kernel line",
        one.kernel_line,
        "lock the source of the same line: image/debian/packages.toml [kconfig]",
    )
    one.check(
        "drivers of the initrd",
        one.drivers,
        "add the symbol to image/buildroot/kernel/common.config",
    )
    one.check("package lint", one.lint, "mend what utils/check-package names")
    one.check("hashes", one.hashes, "choose a version that Buildroot has a hash of")
    for arch in ARCHES.values():
        one.check(
            f"bill of materials {arch.name}",
            lambda arch=arch: one.bill(arch),  # type: ignore[misc]
            "run `make show-info | utils/generate-cyclonedx` in the checkout by hand",
        )
    for name, what, remedy in (*contract.checks(one), *called.checks(one)):
        one.check(name, what, remedy)
