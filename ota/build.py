# SPDX-License-Identifier: GPL-3.0-or-later
"""A release's bundle: slot images, manifest and hook, packed and signed by RAUC."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from image.arch import Arch
from image.run import run
from image.toolroot import ToolRoot
from ota import render
from ota.render import ReleaseError

BLOCK = 4096


@dataclass(frozen=True)
class Signer:
    """Who signs: paths of PEM files, or PKCS#11 URIs (RFC 7512) of a token."""

    cert: str
    key: str
    intermediates: tuple[str, ...] = ()

    @property
    def token(self) -> bool:
        """Whether a token holds the key."""
        return self.key.startswith("pkcs11:")


def pack(
    images: Path,
    arch: Arch,
    version: str,
    signer: Signer,
    target: Path,
    tools: ToolRoot,
    *,
    build: int,
    update_from: str = "0.0.0",
    form: str = "verity",
) -> Path:
    """Write ``target`` from root.img and boot.img in ``images``.

    With files RAUC runs in the tool tree; with a token the machine's own does, since it needs the token's module.
    The keys are in the tool tree for as long as RAUC runs, in a folder that only root reads.
    """
    # RAUC's index of blocks is of whole blocks.
    for name in ("root.img", "boot.img"):
        if not (images / name).is_file():
            raise ReleaseError(f"{images / name} is missing: build the image first (just image)")
    with tempfile.TemporaryDirectory(prefix="ota-", dir=tools.work) as made:
        work = Path(made)
        content = work / "content"
        content.mkdir()
        for name in ("root.img", "boot.img"):
            shutil.copyfile(images / name, content / name)
            _whole_blocks(content / name)
        shutil.copyfile(render.HERE / "hook", content / "hook")
        (content / "hook").chmod(0o755)
        text = render.manifest(arch, version, build=build, update_from=update_from, form=form)
        (content / "manifest.raucm").write_text(text)
        command = ["rauc", *_keys(signer, work, tools), "bundle"]
        # As it is in the image: a block that stays the same is the same bytes in the bundle, uncompressed, and
        # erofs has compressed it already.
        command += ["--mksquashfs-args=-noD -noF -no-xattrs -all-root -quiet -no-progress"]
        if signer.token:
            run([*command, content, work / "bundle.raucb"])
        else:
            inside = work.relative_to(tools.work)
            tools.run([*command, f"{inside}/content", f"{inside}/bundle.raucb"])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "bundle.raucb", target)
    return target


def image_version(images: Path) -> str:
    """The version that the slot's boot part names; raises ReleaseError."""
    text = (images / "boot/slot.cfg").read_text() if (images / "boot/slot.cfg").exists() else ""
    found = re.search(r'^set slot_version="(.*)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"no image in {images}: build it first (just image debian ARCH)")
    return found[1]


def _whole_blocks(path: Path) -> None:
    size = -(-path.stat().st_size // BLOCK) * BLOCK
    with path.open("r+b") as file:
        file.truncate(size)


def _keys(signer: Signer, work: Path, tools: ToolRoot) -> list[str]:
    if signer.token:
        given = [f"--cert={signer.cert}", f"--key={signer.key}"]
        return [*given, *(f"--intermediate={one}" for one in signer.intermediates)]
    folder = work / "keys"
    folder.mkdir(mode=0o700)

    def put(name: str, source: str) -> str:
        try:
            (folder / name).write_bytes(Path(source).read_bytes())
        except OSError as error:
            raise ReleaseError(f"{source}: {error.strerror}; see docs/updates.md, Keys") from error
        return str((folder / name).relative_to(tools.work))

    options = [f"--cert={put('cert.pem', signer.cert)}", f"--key={put('key.pem', signer.key)}"]
    for number, one in enumerate(signer.intermediates):
        options.append(f"--intermediate={put(f'intermediate-{number}.pem', one)}")
    return options
