# SPDX-License-Identifier: GPL-3.0-or-later
"""Buildroot's two hooks: the shared finish of the root tree, and the hand-over of what the shared disk is made of.

`board/post-build.sh` and `board/post-image.sh` call this from inside a Buildroot build.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from image import system
from image.arch import ARCHES
from image.release import commit_time, version
from image.run import BuildError

OWN = Path(__file__).resolve().parent / "board" / "root"
"""Laid over before the shared overlay: names and places that the overlay takes from Debian."""
REMOVED = (
    "usr/lib/systemd/system/sshd.service", "usr/lib/systemd/system/chronyd.service", "etc/init.d", "usr/lib/grub",
    "etc/network", "usr/share/man", "usr/share/info", "usr/share/bash-completion",
)  # fmt: skip
MADE = ("var/lib/chrony",)
"""Folders that Debian's packages bring and Buildroot's do not."""
HANDED_OVER = "voice-edge-boot"
"""Below Buildroot's images: a tree like that of unpacked boot packages (image/disk/build.py, Parts.unpacked)."""
BUNDLE = "voice-edge"
"""Below Buildroot's images: where package voice-edge puts the frozen agent."""


def post_build(target: Path, images: Path, arch: str, *, epoch: int) -> None:
    """Finish the root tree ``target``; may run again on a tree that it has finished."""
    grub = target / "usr/lib/grub"
    if grub.is_dir():
        _copy(grub, images / HANDED_OVER / "usr/lib/grub")
    for name in REMOVED:
        path = target / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
            missing_ok=True
        )
    system.lay_over(target, OWN)
    for name in MADE:
        (target / name).mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / system.BUNDLE_PLACE, ignore_errors=True)
    bundle = images / BUNDLE
    if not bundle.is_dir():
        raise BuildError(f"no agent bundle in {images}; make it with `just bundle {arch}`")
    system.finish(target, bundle, system.Release(version(), arch, "buildroot"), epoch=epoch)


def hand_over(target: Path, images: Path) -> None:
    """Collect kernel, modules, GRUB and the initrd's shell below ``images``."""
    boot = images / HANDED_OVER
    modules = [
        path
        for path in (target / "usr/lib/modules").glob("*")
        if (path / "modules.builtin").is_file()
    ]
    kernels = [path for path in (images / "bzImage", images / "Image") if path.is_file()]
    if len(modules) != 1 or len(kernels) != 1:
        raise BuildError(
            f"{images} holds {len(kernels)} kernels and the root modules of {len(modules)}, not one of each: a build "
            "folder that was used for something else? Remove it and build again"
        )
    release = modules[0].name
    for name in ("boot", "usr/lib/modules", "usr/bin"):
        shutil.rmtree(boot / name, ignore_errors=True)
        (boot / name).mkdir(parents=True)
    shutil.copyfile(kernels[0], boot / "boot" / f"vmlinuz-{release}")
    _copy(modules[0], boot / "usr/lib/modules" / release)
    shutil.copyfile(target / "usr/bin/busybox", boot / "usr/bin/busybox")
    if not (boot / "usr/lib/grub").is_dir():
        raise BuildError(
            "GRUB's modules are gone from the root tree; `make grub2-reinstall` brings them back"
        )


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    # `build` and `source` of a module folder point into the build tree.
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("build", "source"))


def architecture(config: Path) -> str:
    """Which of our architectures a Buildroot configuration is for."""
    lines = config.read_text().splitlines()
    for arch in ARCHES:
        if f'BR2_ARCH="{arch}"' in lines:
            return arch
    raise BuildError(f"{config} is for none of {', '.join(ARCHES)}; use one of our defconfigs")


def main(arguments: list[str]) -> int:
    """`post-build|post-image TARGET IMAGES`, with Buildroot's environment."""
    verb, target, images = arguments[0], Path(arguments[1]), Path(arguments[2])
    try:
        arch = architecture(Path(os.environ["BR2_CONFIG"]))
        if verb == "post-build":
            post_build(target, images, arch, epoch=commit_time())
        else:
            hand_over(target, images)
            if os.geteuid() != 0:
                print(
                    f"root tree and kernel are ready; as root, `just image buildroot {arch}` makes the disk of them"
                )
                return 0
            from image.buildroot import provider

            provider.disk(ARCHES[arch], images)
    except (BuildError, OSError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
