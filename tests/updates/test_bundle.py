# SPDX-License-Identifier: GPL-3.0-or-later
"""A release's bundle as it is shipped (verity), read by real RAUC; and how recipe and templates refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from image.arch import ARCHES
from image.disk.layout import partitions
from ota import build, render
from ota.pki import Authority
from voice_edge.update.refusals import explain

from .box import BLOCK, Box, Factory
from .conftest import Keys


@pytest.fixture(scope="session")
def release(factory: Factory, keys: Keys) -> Path:
    return factory.bundle("release", keys.signer, form="verity")


def test_a_release_is_read(box: Box, release: Path) -> None:
    said = box.rauc(f"info --output-format=shell {box.inside(release)}")
    assert said.code == 0, said.text
    for line in (
        "RAUC_MF_COMPATIBLE='voice-edge-x86_64-layout1'",
        "RAUC_MF_VERSION='1.1.0'",
        "RAUC_MF_FORMAT='verity'",
        "RAUC_MF_IMAGES='2'",
    ):
        assert line.replace("'", "") in said.text.replace("'", "").replace('"', ""), line


def test_an_update_may_load_only_blocks_that_changed(box: Box, release: Path) -> None:
    """RAUC stores an index of hashes beside each image that says so."""
    said = box.rauc(f"extract {box.inside(release)} {box.name}/out/content")
    assert said.code == 0, said.text
    content = box.folder / "out/content"
    for name in ("root.img", "boot.img"):
        index = content / f"{name}.block-hash-index"
        assert index.stat().st_size == (content / name).stat().st_size // BLOCK * 32


def test_blocks_stand_in_the_bundle_as_they_are(release: Path, factory: Factory) -> None:
    """Not compressed again: an unchanged block is the same bytes in two releases."""
    root = (factory.folder / "images-1/root.img").read_bytes()
    data = release.read_bytes()
    assert all(root[at : at + BLOCK] in data for at in range(0, len(root), BLOCK))


@pytest.mark.parametrize(
    ("harm", "code"),
    [("unsigned", "ota.unsigned"), ("truncated", "ota.truncated"), ("flipped", "ota.corrupted")],
)
def test_a_harmed_release_is_not_opened(
    box: Box, release: Path, factory: Factory, harm: str, code: str
) -> None:
    if harm == "unsigned":
        harmed = factory.without_signature(release)
    elif harm == "truncated":
        harmed = factory.cut(release, 0.6)
    else:
        harmed = factory.flipped(release, b"root.img 100")
    said = box.rauc(f"extract {box.inside(harmed)} {box.name}/out/{harm}")
    assert said.code != 0
    assert explain(said.text).code == code, said.text


def test_each_byte_of_the_signature_counts(box: Box, release: Path, factory: Factory) -> None:
    data = bytearray(release.read_bytes())
    data[-40] ^= 1  # in the signature's value, which ends eight bytes before the file does
    harmed = factory.folder / "signature.raucb"
    harmed.write_bytes(data)
    said = box.rauc(f"info {box.inside(harmed)}")
    assert said.code != 0
    assert explain(said.text).code == "ota.corrupted", said.text


def test_a_new_signer_under_the_same_authority_is_trusted(
    box: Box, factory: Factory, keys: Keys
) -> None:
    """Rotation: boxes know the authority, not the signer."""
    bundle = factory.bundle("rotated", keys.ours.signer("second"), form="verity")
    assert box.rauc(f"info {box.inside(bundle)}").code == 0


def test_a_keyring_of_two_authorities_trusts_both(box: Box, factory: Factory, keys: Keys) -> None:
    """Rotation of the authority: for a time both are in the image."""
    bundle = factory.bundle("other", keys.stranger, form="verity")
    assert box.rauc(f"info {box.inside(bundle)}").code != 0
    ring = box.folder / "keyring.pem"
    ring.write_text(ring.read_text() + keys.theirs.cert.read_text())
    assert box.rauc(f"info {box.inside(bundle)}").code == 0


def test_what_a_box_is_told_names_the_partitions() -> None:
    arch = ARCHES["x86_64"]
    conf = render.system_conf(arch, "1.2.3")
    for partition in partitions(arch)[1:5]:
        assert f"device=/dev/disk/by-partlabel/{partition.name}\n" in conf
    assert "min-bundle-version=1.2.3\n" in conf
    assert "bundle-formats=verity\n" in conf


def test_architectures_stay_apart() -> None:
    assert len({render.compatible(arch) for arch in ARCHES.values()}) == len(ARCHES)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3 ", "1.2.3\nformat=plain"])
def test_a_version_that_cannot_be_compared_is_refused(version: str) -> None:
    with pytest.raises(render.ReleaseError, match="three numbers"):
        render.manifest(ARCHES["x86_64"], version, build=0)


def test_the_version_of_an_image_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(render.ReleaseError, match="build it first"):
        build.image_version(tmp_path)


def test_no_key_is_said_before_anything_is_done() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ota", "x86_64", "1.2.3"],
        capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "no key to sign with" in done.stderr


def test_keys_do_not_stay_behind(factory: Factory, keys: Keys, release: Path) -> None:
    assert isinstance(keys.ours, Authority)
    secret = Path(keys.signer.key).read_bytes()
    assert not [p for p in factory.folder.rglob("*.pem") if p.read_bytes() == secret]
