# SPDX-License-Identifier: GPL-3.0-or-later
"""Image tooling: ``just image``, ``image-repro``, ``image-lock`` and ``image-verify`` call this."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from image import outputs, repro, system, toolroot
from image.arch import ARCHES, Arch
from image.buildroot import provider as buildroot
from image.buildroot import verify
from image.debian import lock, provider
from image.debian.fetch import PackagesGone, fetch
from image.disk import build
from image.release import commit_time, timed, version
from image.run import BuildError
from image.toolroot import ToolRoot
from tools.apt import AptError
from tools.cache import ROOT, say

OUT = ROOT / "out" / "image"


def main() -> int:
    """Run one verb; build errors are one readable text, not a traceback."""
    parser = argparse.ArgumentParser(prog="python3 -m image")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("build", help="build the disk image")
    verb.add_argument("provider", choices=["debian", "buildroot"])
    verb.add_argument("arch", choices=sorted(ARCHES))
    verb = verbs.add_parser("repro", help="build twice and compare bit by bit")
    verb.add_argument("arch", choices=sorted(ARCHES))
    verb = verbs.add_parser("lock", help="lock the newest packages of the suites")
    verb.add_argument("targets", nargs="*", help="tables of packages.toml; without one, all")
    verb.add_argument(
        "--if-gone",
        action="store_true",
        help="fetch what is locked; relock only targets of which a package cannot be had any more",
    )
    verb = verbs.add_parser("verify", help="show what can be shown of a provider without building")
    verb.add_argument("provider", choices=["buildroot"])
    arguments = parser.parse_args()
    try:
        match arguments.verb:
            case "build" if arguments.provider == "buildroot":
                buildroot.build(ARCHES[arguments.arch])
            case "build":
                build_image(ARCHES[arguments.arch])
            case "repro":
                return repro.prove(ARCHES[arguments.arch])
            case "verify":
                return verify.main()
            case "lock":
                renew = relock_gone if arguments.if_gone else lock.relock_all
                print("\n".join(renew(arguments.targets)) or "nothing changed")
    except (BuildError, lock.LockError, PackagesGone, AptError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


def relock_gone(only: Sequence[str] = ()) -> list[str]:
    """Fetch every locked package; relock the targets that miss one. Returns what changed, as `relock_all` does.

    For CI, which has no cache and must not stand still because a mirror moved on.
    """
    gone: list[str] = []
    for target, arch in lock.targets():
        if only and target not in only:
            continue
        try:
            fetch(lock.read(target, arch))
        except PackagesGone as error:
            say(f"{target}-{arch.name}: {error}")
            if target not in gone:
                gone.append(target)
    if not gone:
        return []
    changes = lock.relock_all(gone)
    for target, arch in lock.targets():
        if target in gone:
            fetch(lock.read(target, arch))
    return changes


def build_image(arch: Arch) -> None:
    """Build for ``arch`` into out/image/."""
    started = time.monotonic()
    tools = toolroot.get(ROOT / "out" / "build" / f"image-{arch.name}")
    disk = make(arch, tools, cached=True)
    made = outputs.write(disk, f"voice-edge-{arch.name}", OUT, tools)
    say(f"image for {arch.name} made in {time.monotonic() - started:.0f} s")
    for path in made:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")


def make(arch: Arch, tools: ToolRoot, *, cached: bool) -> Path:
    """Build the raw disk in the tools' work folder and return its path."""
    epoch = commit_time()
    with timed("packages to root tree"):
        parts = provider.parts(arch, tools, cached=cached)
    with timed("overlay and agent"):
        system.finish(
            parts.root, bundle(arch), system.Release(version(), arch.name, "debian"), epoch=epoch
        )
    with timed("slot images and disk"):
        return build.build_disk(parts, arch, version(), tools, epoch=epoch)


def bundle(arch: Arch) -> Path | None:
    """The agent's frozen bundle for ``arch``, which `just bundle` made."""
    path = ROOT / "out" / "bundle" / arch.name / "voice-edge"
    if not path.is_dir():
        raise BuildError(
            f"no agent bundle at {path.relative_to(ROOT)}; make it with `just bundle {arch.name}`"
        )
    return path


if __name__ == "__main__":
    sys.exit(main())
