# SPDX-License-Identifier: GPL-3.0-or-later
"""Real RAUC installs into the other slot or refuses, and says why; the running slot is never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from image.disk import grub
from voice_edge.update.refusals import explain

from .box import Box, Factory
from .conftest import Keys

pytestmark = pytest.mark.usefixtures("loops")


@pytest.fixture(scope="session")
def release(factory: Factory, keys: Keys) -> Path:
    return factory.bundle("install", keys.signer)


def test_a_release_lands_in_the_other_slot(box: Box, release: Path, factory: Factory) -> None:
    before = box.content("a")
    said = box.install(release)
    assert said.code == 0, said.text
    made = [factory.folder / "images-1" / name for name in ("root.img", "boot.img")]
    assert box.content("b") == tuple(path.read_bytes() for path in made)
    assert box.content("a") == before


def test_written_is_not_switched_to(box: Box, release: Path) -> None:
    """A power cut between install and the window must start what ran before."""
    assert box.install(release).code == 0
    assert box.counters()["ORDER"] == "A B"
    assert box.counters()["B_OK"] == "0"
    assert box.activate().code == 0
    counters = box.counters()
    assert (counters["ORDER"], counters["B_OK"], counters["B_TRY"]) == ("B A", "1", "0")
    # What is ours and not RAUC's is left alone.
    assert counters["LAST_GOOD"] == "A"


def test_there_and_back(box: Box, release: Path, factory: Factory, keys: Keys) -> None:
    assert box.install(release).code == 0
    assert box.activate().code == 0
    box.slot = "B"
    box.runs("1.1.0")
    second = factory.bundle("second", keys.signer, version="1.2.0", seed=2)
    before = box.content("b")
    assert box.install(second).code == 0
    assert box.content("a")[0] == (factory.folder / "images-2/root.img").read_bytes()
    assert box.content("b") == before


@pytest.fixture
def bad(request: pytest.FixtureRequest, release: Path, factory: Factory, keys: Keys) -> Path:
    make = {
        "unsigned": lambda: factory.without_signature(release),
        "wrong-key": lambda: factory.bundle("stranger", keys.stranger),
        "expired": lambda: factory.bundle("expired", keys.expired),
        "wrong-machine": lambda: factory.bundle("machine", keys.signer, arch="aarch64"),
        "downgrade": lambda: factory.bundle("older", keys.signer, version="0.9.0"),
        "step-needed": lambda: factory.bundle("step", keys.signer, update_from="1.0.5"),
        "truncated": lambda: factory.cut(release, 0.6),
        "corrupted": lambda: factory.flipped(release, b"root.img 100"),
    }
    return make[request.param]()


KINDS = ("unsigned", "wrong-key", "expired", "wrong-machine", "downgrade", "step-needed")


@pytest.mark.parametrize(
    ("bad", "code"),
    [(kind, f"ota.{kind}") for kind in (*KINDS, "truncated", "corrupted")],
    indirect=["bad"],
)
def test_a_bad_release_is_refused_with_its_own_message(box: Box, bad: Path, code: str) -> None:
    said = box.install(bad)
    assert said.code != 0
    refusal = explain(said.text)
    assert refusal.code == code, said.text
    assert refusal.what
    assert refusal.remedy
    # Nothing was written, and the counters are as they were.
    assert not any(box.content("b")[0])
    assert box.counters() == grub.FIRST_ENVIRONMENT


def test_a_downgrade_that_was_asked_for_is_done(box: Box, factory: Factory, keys: Keys) -> None:
    older = factory.bundle("asked", keys.signer, version="0.9.0")
    assert box.install(older, "--ignore-version-limit").code == 0


def test_a_slot_that_has_not_proved_itself_keeps_its_way_back(box: Box, release: Path) -> None:
    (box.folder / "slot-good").unlink()
    said = box.install(release)
    assert explain(said.text).code == "ota.slot-not-good"
    (box.folder / "slot-good").write_text("")
    assert box.install(release).code == 0


def test_grubenv_that_is_damaged_ends_an_install_before_a_slot_is_written(
    box: Box, release: Path
) -> None:
    """B57: voice-edge-bootenv mends it at the next boot; until then nothing changes."""
    box.grubenv.write_bytes(bytes(1024))
    said = box.install(release)
    assert said.code != 0
    assert not any(box.content("b")[0])


def test_a_keyring_that_is_missing_is_told(box: Box, release: Path) -> None:
    (box.folder / "keyring.pem").unlink()
    said = box.install(release)
    assert explain(said.text).code == "ota.no-keyring", said.text


def test_rauc_sees_the_slots_as_the_boot_loader_does(box: Box) -> None:
    status = box.status()
    assert status["booted"] == "A"
    assert status["boot_primary"] == "rootfs.0"
    assert status["compatible"] == "voice-edge-x86_64-layout1"
