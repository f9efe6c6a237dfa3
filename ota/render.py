# SPDX-License-Identifier: GPL-3.0-or-later
"""RAUC's system.conf and manifest: one template each, filled with an architecture's data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from image.arch import Arch

HERE = Path(__file__).resolve().parent
LAYOUT = 1
"""Raised when a partition table comes that older boxes do not have (image/disk/layout.py): their bundles stay apart."""
KEYRING_PLACE = "etc/rauc/keyring.pem"
SYSTEM_CONF_PLACE = "etc/rauc/system.conf"
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


class ReleaseError(Exception):
    """What was asked for cannot be released; the text names the place and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Where RAUC finds things; the defaults are the appliance's."""

    grubenv: str = "/boot/efi/grub/grubenv"
    data: str = "/data/rauc"
    keyring: str = f"/{KEYRING_PLACE}"
    devices: str = "/dev/disk/by-partlabel"
    formats: str = "verity"


def compatible(arch: Arch) -> str:
    """What a box and a bundle must agree on, to the letter."""
    return f"voice-edge-{arch.name}-layout{LAYOUT}"


def system_conf(arch: Arch, version: str, box: Box | None = None) -> str:
    """RAUC's configuration for the image of ``version``."""
    box = box or Box()
    return _fill(
        "system.conf.in",
        COMPATIBLE=compatible(arch),
        VERSION=checked(version),
        GRUBENV=box.grubenv,
        DATA=box.data,
        KEYRING=box.keyring,
        DEVICES=box.devices,
        FORMATS=box.formats,
    )


def manifest(
    arch: Arch, version: str, *, build: int, update_from: str = "0.0.0", form: str = "verity"
) -> str:
    """A bundle's manifest. ``build`` is the commit's Unix time, ``form`` verity or (tests only) plain."""
    return _fill(
        "manifest.raucm.in",
        COMPATIBLE=compatible(arch),
        VERSION=checked(version),
        ARCH=arch.name,
        BUILD=str(build),
        LAYOUT=str(LAYOUT),
        UPDATE_FROM=checked(update_from),
        FORMAT=form,
    )


def checked(version: str) -> str:
    """``version`` if RAUC can compare it (Semantic Versioning 2.0.0, section 2); raises ReleaseError."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"version {version!r} cannot be compared: use three numbers, as 1.4.0")
    return version


def _fill(name: str, **values: str) -> str:
    text = (HERE / name).read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    if left := re.findall(r"@[A-Z_]+@", text):
        raise ReleaseError(f"ota/{name} has {left[0]}, which nothing fills")
    return text
