# SPDX-License-Identifier: GPL-3.0-or-later
"""The least that a bundle runs on: the C library and zlib of Debian 13. No Python is there, nor a shell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bundle import trees
from image import emulation
from image.arch import Arch
from image.debian import lock

PACKAGES = ("libc6", "zlib1g")
PLACE = "/usr/lib/voice-edge"
"""Where the image has the bundle."""
PROGRAM = f"{PLACE}/voice-edge"
_ENTER = """
set -eu
root=$1 bundle=$2 shared=$3
shift 3
mkdir -p "$root/usr/lib/voice-edge"
mount --bind -o ro "$bundle" "$root/usr/lib/voice-edge"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o noexec tmpfs "$root/tmp"
if [ -n "$shared" ]; then
    mkdir -p "$root$shared"
    mount --bind "$shared" "$root$shared"
fi
exec chroot "$root" "$@"
"""


class Target:
    """A root folder that the bundle can be started in; needs root. /tmp there is noexec, as it may be on a server."""

    def __init__(self, arch: Arch, bundle: Path, root: Path) -> None:
        if not arch.native:
            emulation.emulate(arch)
        self.arch, self.bundle, self._root = arch, bundle, root
        packages = lock.read("rootfs", arch)
        trees.unpack([package for package in packages if package.name in PACKAGES], root)

    def command(self, arguments: Sequence[str], *, shared: Path | None = None) -> list[str]:
        """The command that runs the bundle's program.

        ``shared`` is a folder of the host that is there under the same path. Network and process
        ids are the host's; mounts end with the program.
        """
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "enter"]
        words += [str(self._root), str(self.bundle), str(shared or "")]
        return [*words, PROGRAM, *arguments]

    def environment(self) -> dict[str, str]:
        """The program's environment: nothing of the host's."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            **emulation.environment(self.arch),
        }
