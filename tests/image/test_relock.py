# SPDX-License-Identifier: GPL-3.0-or-later
"""`image-lock --if-gone`: what can be had stays locked; only what is gone is locked anew."""

from __future__ import annotations

import pytest

from image import __main__ as image
from image.arch import Arch
from image.debian import lock
from image.debian.fetch import PackagesGone
from image.debian.lock import Package

OLD = Package("rauc", "1.13-3", "amd64", 1, "a" * 64, "debian", "pool/rauc.deb")
NEW = Package("rauc", "1.13-4", "amd64", 1, "b" * 64, "debian", "pool/rauc.deb")


class Archive:
    """An archive that has only `NEW`, and locks of which `stale` names those that still hold `OLD`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stale: set[str]) -> None:
        self.stale = stale
        self.relocked: list[str] = []
        monkeypatch.setattr(lock, "read", self.read)
        monkeypatch.setattr(lock, "relock", self.relock)
        monkeypatch.setattr(image, "fetch", self.fetch)

    def read(self, target: str, _arch: Arch) -> list[Package]:
        return [OLD if target in self.stale else NEW]

    def relock(self, target: str, arch: Arch) -> list[str]:
        self.relocked.append(f"{target}-{arch.name}")
        self.stale.discard(target)
        return lock.differences([OLD], [NEW])

    def fetch(self, packages: list[Package]) -> None:
        if OLD in packages:
            raise PackagesGone([OLD])


def test_nothing_is_relocked_while_all_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(monkeypatch, set())
    assert image.relock_gone() == []
    assert archive.relocked == []


def test_only_the_stale_target_is_relocked_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(monkeypatch, {"tools"})
    assert image.relock_gone() == ["tools-x86_64: rauc 1.13-3 → 1.13-4"]
    assert archive.relocked == ["tools-x86_64"]
    assert "rauc 1.13-3" in "".join(capsys.readouterr())


def test_a_package_that_stays_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(monkeypatch, {"rootfs"})
    monkeypatch.setattr(lock, "relock", lambda *_: [])
    with pytest.raises(PackagesGone, match=r"rauc 1\.13-3"):
        image.relock_gone()
    assert archive.stale == {"rootfs"}
