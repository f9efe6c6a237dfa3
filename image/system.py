# SPDX-License-Identifier: GPL-3.0-or-later
"""What every provider's root gets: our overlay, the agent bundle, users, release file, places to mount on."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

OVERLAY = Path(__file__).resolve().parent.parent / "rootfs-overlay"
BUNDLE_PLACE = "usr/lib/voice-edge"
AGENT_UID = 901
MOUNT_POINTS = ("data", "boot/efi", "proc", "sys", "dev", "run", "tmp")


@dataclass(frozen=True)
class Release:
    """Which release this is."""

    version: str
    arch: str
    provider: str


def finish(root: Path, bundle: Path | None, release: Release, *, epoch: int) -> None:
    """Turn a provider's root into ours. ``bundle`` is the PyInstaller folder of the agent."""
    lay_over(root, OVERLAY)
    if bundle is not None:
        shutil.copytree(bundle, root / BUNDLE_PLACE, symlinks=True)
        link = root / "usr/bin/voice-edge"
        link.unlink(missing_ok=True)
        link.symlink_to("../lib/voice-edge/voice-edge")
    _add_user(root)
    for name in MOUNT_POINTS:
        (root / name).mkdir(parents=True, exist_ok=True)
    # Empty, so that the initrd can bind the box's own id over it; /etc is read-only.
    (root / "etc/machine-id").write_text("")
    _link(root / "etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
    _link(root / "etc/hostname", "../run/voice-edge/hostname")
    (root / "usr/lib/voice-edge-release").write_text(
        f'VERSION="{release.version}"\nARCH="{release.arch}"\nPROVIDER="{release.provider}"\nBUILD_TIME="{epoch}"\n'
    )
    # The clock floor: systemd never starts with an earlier time than this file's (systemd(1), "System clock epoch").
    floor = root / "usr/lib/clock-epoch"
    floor.write_text("")
    _settle_times(root, epoch)


def lay_over(root: Path, overlay: Path) -> None:
    """Copy ``overlay`` over ``root``: modes 0755 and 0644 whatever the checkout's umask, links as they are."""
    for source in sorted(overlay.rglob("*")):
        target = root / source.relative_to(overlay)
        if source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(target, os.readlink(source))
        elif source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _add_user(root: Path) -> None:
    """The agent's system user; /etc is read-only on the box, so sysusers cannot make it there."""
    lines = {
        "passwd": f"voice-edge:x:{AGENT_UID}:{AGENT_UID}:voice agent:/data:/usr/sbin/nologin",
        "group": f"voice-edge:x:{AGENT_UID}:",
        "shadow": "voice-edge:!*:::::::",
        "gshadow": "voice-edge:!*::",
    }
    for name, line in lines.items():
        path = root / "etc" / name
        text = path.read_text() if path.exists() else ""
        if "voice-edge:" not in text:
            path.write_text(text.rstrip("\n") + "\n" + line + "\n")


def _settle_times(root: Path, epoch: int) -> None:
    """No file newer than the commit, whatever the day of the build."""
    for folder, names, files in os.walk(root):
        for name in [*names, *files]:
            path = Path(folder, name)
            if path.lstat().st_mtime > epoch:
                os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))
