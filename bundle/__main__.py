# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m bundle build|repro ARCH``: the recipes `bundle` and `bundle-repro` call this."""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bundle import contents, core, sbom
from bundle.files import settle
from bundle.freeze import freeze
from bundle.target import Target
from image.arch import ARCHES, Arch
from image.debian.fetch import PackagesGone
from image.debian.lock import LockError
from image.release import commit_time, version
from image.repro import tree_difference
from image.run import BuildError, run
from tools.apt import AptError
from tools.cache import ROOT, cache_dir, locked, say
from tools.fetch import FetchError
from tools.paths import VENV

OUT = ROOT / "out" / "bundle"
STARTS = 5


def main() -> int:
    """Run one verb; build errors are one readable text, not a traceback."""
    parser = argparse.ArgumentParser(prog="python3 -m bundle")
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="build into out/bundle/ARCH/")
    build.add_argument("--work", type=Path, help="where to work instead of in the user's cache")
    for verb in (build, verbs.add_parser("repro", help="build twice from nothing and compare")):
        verb.add_argument("arch", choices=sorted(ARCHES))
    arguments = parser.parse_args()
    arch = ARCHES[arguments.arch]
    try:
        if arguments.verb == "repro":
            return prove(arch)
        started = time.monotonic()
        made = make(arch, arguments.work or cache_dir() / "bundle", OUT / arch.name)
        say(f"bundle for {arch.name} made in {time.monotonic() - started:.0f} s")
        report(arch, made)
    except (BuildError, LockError, PackagesGone, AptError, FetchError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


def make(arch: Arch, base: Path, out: Path) -> Path:
    """Build for ``arch`` with work folders and caches below ``base``; returns the bundle's folder in ``out``."""
    epoch = commit_time()
    base.mkdir(parents=True, exist_ok=True)
    compiled = core.build(arch, base)
    work = base / f"freeze-{arch.name}"
    with locked(work.with_suffix(".lock"), "freezing"):
        frozen, tools = freeze(arch, compiled, work)
        out.mkdir(parents=True, exist_ok=True)
        made = out / "voice-edge"
        part = out / "voice-edge.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(frozen, part, symlinks=True)
        inside = contents.components(part, compiled, work / "site", tools, arch)
        contents.lay_licences(inside, part / "licenses", tools.root)
        bill = sbom.document(inside, version=version(), arch=arch.name, epoch=epoch)
        (part / sbom.FILE).write_text(bill)
        settle(part, epoch)
        shutil.rmtree(made, ignore_errors=True)
        part.rename(made)
        shutil.rmtree(out / "debug", ignore_errors=True)
        shutil.copytree(compiled.debug, out / "debug")
    return made


def report(arch: Arch, bundle: Path) -> None:
    """Print size and start-up time."""
    files = [path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    print(f"{bundle.relative_to(ROOT)}  {size / 1e6:.1f} MB in {len(files)} files")
    with tempfile.TemporaryDirectory(prefix="voice-edge-target-") as folder:
        target = Target(arch, bundle, Path(folder, "root"))
        seconds = [_start(target) for _ in range(STARTS)]
    how = "" if arch.native else " (emulated)"
    print(
        f"start-up: {statistics.median(seconds):.2f} s, median of {STARTS}{how}: voice-edge --version"
    )


def _start(target: Target) -> float:
    begun = time.monotonic()
    done = subprocess.run(
        target.command(["--version"]),
        env=target.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - begun
    if done.returncode != 0 or version() not in done.stdout:
        raise BuildError(
            f"voice-edge --version ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return took


def prove(arch: Arch) -> int:
    """Build one commit twice, in two checkouts, each time all of it from nothing.

    Returns 0 when the bundles are equal, else 1 with the first difference named.
    """
    folder = ROOT / "out" / "build"
    folder.mkdir(parents=True, exist_ok=True)
    commit = run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
    with tempfile.TemporaryDirectory(prefix="bundle-repro-", dir=folder) as scratch:
        builds = []
        for number, place in enumerate([Path(scratch, "one"), Path(scratch, "the-other-build")], 1):
            say(f"{arch.name}: build {number} of 2 in {place.name}/")
            builds.append(_build_in(place, commit, arch))
            time.sleep(1.1)
        difference = tree_difference(*builds)
        if difference:
            print(f"{arch.name}: two builds of the bundle differ, first in {difference}")
            kept = folder / f"bundle-repro-{arch.name}-kept"
            shutil.rmtree(kept, ignore_errors=True)
            for build in builds:
                shutil.copytree(build, kept / build.relative_to(scratch).parts[0], symlinks=True)
            print(f"both are kept in {kept.relative_to(ROOT)}")
            return 1
    print(f"{arch.name}: two builds of the bundle of commit {commit[:12]}, identical")
    return 0


def _build_in(place: Path, commit: str, arch: Arch) -> Path:
    """A fresh checkout of ``commit`` in ``place`` builds its bundle, with work folders of its own."""
    checkout = place / "checkout"
    run(["git", "clone", "--quiet", "--no-checkout", ROOT, checkout])
    run(["git", "-C", checkout, "checkout", "--quiet", "--detach", commit])
    (checkout / VENV.name).symlink_to(VENV)
    command = [sys.executable, "-m", "bundle", "build", arch.name, "--work", str(place / "work")]
    if subprocess.run(command, cwd=checkout, check=False).returncode != 0:
        raise BuildError(f"the build in {place.name}/ failed: see above")
    return checkout / "out" / "bundle" / arch.name / "voice-edge"


if __name__ == "__main__":
    sys.exit(main())
