# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel and modules: unpacked, pruned to what a telephony server drives, indexed by depmod."""

from __future__ import annotations

import lzma
import shutil
from dataclasses import dataclass
from pathlib import Path

from image.run import BuildError
from image.toolroot import ToolRoot

PRUNED_DRIVERS = """
accel atm bluetooth comedi firewire gnss gpu iio infiniband input/joystick input/misc input/tablet
input/touchscreen isdn media mtd net/can net/fddi net/hamradio net/ieee802154 net/wireless net/wwan
nfc parport pcmcia platform/chrome platform/surface soundwire staging target thunderbolt
video/fbdev w1
"""
PRUNED_NET = """
6lowpan 9p ax25 batman-adv bluetooth can ceph ieee802154 mac80211 mac802154 netrom nfc rose wireless
atm lapb x25
"""
PRUNED_FILE_SYSTEMS = """
9p adfs affs afs bcachefs befs bfs btrfs ceph coda f2fs gfs2 hfs hfsplus hpfs jffs2 jfs minix nfsd
nilfs2 ntfs3 ocfs2 omfs orangefs qnx4 qnx6 reiserfs smb ubifs ufs xfs zonefs
"""
PRUNED = (
    "sound",
    *(f"drivers/{name}" for name in PRUNED_DRIVERS.split()),
    *(f"net/{name}" for name in PRUNED_NET.split()),
    *(f"fs/{name}" for name in PRUNED_FILE_SYSTEMS.split()),
)
"""Folders of kernel/ that no server we serve needs: what is left carries server NICs, disks, USB,
IPMI, watchdogs and virtio."""


@dataclass(frozen=True)
class Kernel:
    """A kernel ready for the slot: ``modules`` is a tree with usr/lib/modules/<release>."""

    release: str
    image: Path
    modules: Path

    @property
    def module_folder(self) -> Path:
        """usr/lib/modules/<release> of the pruned tree."""
        return self.modules / "usr/lib/modules" / self.release


def prepare(unpacked: Path, tools: ToolRoot, into: str) -> Kernel:
    """Prune the kernel in ``unpacked`` (a tree from its packages) into folder ``into`` of the tools' work folder."""
    images = sorted((unpacked / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise BuildError(
            f"the kernel package holds {len(images)} kernels, not one: look at packages.toml [boot]"
        )
    release = images[0].name.removeprefix("vmlinuz-")
    target = tools.work / into
    shutil.rmtree(target, ignore_errors=True)
    kernel = Kernel(release, images[0], target)
    source = unpacked / "usr/lib/modules" / release
    shutil.copytree(source, kernel.module_folder, symlinks=True)
    for name in PRUNED:
        shutil.rmtree(kernel.module_folder / "kernel" / name, ignore_errors=True)
    for packed in kernel.module_folder.rglob("*.ko.xz"):
        # The root is compressed as a whole; busybox in the initrd reads only plain modules.
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()
    tools.run(["depmod", "--basedir", f"/work/{into}", "--moduledir", "/usr/lib/modules", release])
    return kernel


def closure(kernel: Kernel, names: tuple[str, ...]) -> list[str]:
    """Paths (below the module folder) of the named modules and all they depend on; built-in ones are left out."""
    needs: dict[str, list[str]] = {}
    for line in (kernel.module_folder / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {_name(path): path for path in needs}
    builtin = {
        _name(line) for line in (kernel.module_folder / "modules.builtin").read_text().splitlines()
    }
    wanted: list[str] = []
    for name in names:
        found = by_name.get(name)
        if found is None:
            if name not in builtin:
                raise BuildError(
                    f"kernel {kernel.release} has no module {name}, which the initrd needs to find its disk"
                )
            continue
        for item in [*reversed(needs[found]), found]:
            if item not in wanted:
                wanted.append(item)
    return wanted


def _name(path: str) -> str:
    return Path(path).name.split(".")[0].replace("-", "_")
