# SPDX-License-Identifier: GPL-3.0-or-later
"""``just ota-bundle`` calls this."""

from __future__ import annotations

import argparse
import os
import sys

from image import toolroot
from image.arch import ARCHES
from image.release import commit_time
from image.run import BuildError
from ota import build
from ota.render import ReleaseError
from tools.cache import ROOT, say, sha256_of

OUT = ROOT / "out" / "ota"


def main() -> int:
    """Make a bundle from the image that lies in out/build; errors are one readable text."""
    parser = argparse.ArgumentParser(prog="just ota-bundle")
    parser.add_argument("arch", choices=sorted(ARCHES))
    parser.add_argument("version", help="must be the image's own")
    parser.add_argument("--update-from", default="0.0.0", help="lowest version it installs from")
    for name, what in (("cert", "certificate"), ("key", "private key")):
        parser.add_argument(
            f"--{name}",
            default=os.environ.get(f"VOICE_EDGE_OTA_{name.upper()}"),
            help=f"the signer's {what}: a PEM file or a PKCS#11 URI (VOICE_EDGE_OTA_{name.upper()})",
        )
    parser.add_argument("--intermediate", action="append", default=[], help="certificate between")
    given = parser.parse_args()
    try:
        if not given.cert or not given.key:
            raise ReleaseError(
                "no key to sign with: give --cert and --key, or VOICE_EDGE_OTA_CERT and VOICE_EDGE_OTA_KEY; "
                "docs/updates.md, Keys, says how they are made"
            )
        arch = ARCHES[given.arch]
        images = ROOT / "out" / "build" / f"image-{arch.name}"
        found = build.image_version(images)
        if found != given.version:
            raise ReleaseError(
                f"the image in {images.relative_to(ROOT)} is version {found}, not {given.version}: set the version in "
                "Cargo.toml and build the image anew, or release what is built"
            )
        target = build.pack(
            images,
            arch,
            given.version,
            build.Signer(given.cert, given.key, tuple(given.intermediate)),
            OUT / f"voice-edge-{arch.name}-{given.version}.raucb",
            toolroot.get(ROOT / "out" / "build" / "ota"),
            build=commit_time(),
            update_from=given.update_from,
        )
    except (ReleaseError, BuildError) as error:
        print(f"ota-bundle: {error}", file=sys.stderr)
        return 1
    say(f"{target.relative_to(ROOT)}  {target.stat().st_size / 1e6:.1f} MB")
    print(f"{sha256_of(target)}  {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
