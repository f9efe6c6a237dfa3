# SPDX-License-Identifier: GPL-3.0-or-later
"""Buildroot's hooks and checkout, on made-up trees."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from image import system
from image.buildroot import board, checkout, contract, needs, verify
from image.run import BuildError

EPOCH = 1_700_000_000


@pytest.fixture
def target(tmp_path: Path) -> Path:
    root = tmp_path / "target"
    for name in ("etc/init.d", "usr/bin", "usr/lib/grub/x86_64-efi", "usr/lib/systemd/system"):
        (root / name).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:*:0:0::/root:/bin/sh\n")
    (root / "usr/lib/systemd/system/sshd.service").write_text("[Unit]\n")
    (root / "usr/lib/grub/x86_64-efi/normal.mod").write_bytes(b"module")
    (root / "usr/bin/busybox").write_bytes(b"shell")
    modules = root / "usr/lib/modules/6.12.91"
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("")
    (modules / "build").symlink_to("/nowhere")
    return root


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / board.BUNDLE).mkdir(parents=True)
    (folder / board.BUNDLE / "voice-edge").write_bytes(b"agent")
    (folder / "bzImage").write_bytes(b"kernel")
    return folder


def test_the_root_is_finished_as_for_every_provider(target: Path, images: Path) -> None:
    for _ in range(2):  # Buildroot runs its hook again on the same tree
        board.post_build(target, images, "x86_64", epoch=EPOCH)
    assert (target / system.BUNDLE_PLACE / "voice-edge").read_bytes() == b"agent"
    assert (target / "etc/passwd").read_text().count("voice-edge:") == 1
    assert 'PROVIDER="buildroot"' in (target / "usr/lib/voice-edge-release").read_text()
    assert (target / "etc/fstab").read_bytes() == (system.OVERLAY / "etc/fstab").read_bytes()


def test_units_of_buildroot_give_way_to_the_names_of_the_overlay(
    target: Path, images: Path
) -> None:
    board.post_build(target, images, "x86_64", epoch=EPOCH)
    units = target / "usr/lib/systemd/system"
    assert not (units / "sshd.service").exists()
    assert (units / "ssh.service").is_file()
    assert not (target / "etc/init.d").exists()


def test_a_build_without_the_agent_ends_with_the_remedy(target: Path, images: Path) -> None:
    (images / board.BUNDLE / "voice-edge").unlink()
    (images / board.BUNDLE).rmdir()
    with pytest.raises(BuildError, match="just bundle aarch64"):
        board.post_build(target, images, "aarch64", epoch=EPOCH)


def test_kernel_modules_grub_and_shell_are_handed_over(target: Path, images: Path) -> None:
    board.post_build(target, images, "x86_64", epoch=EPOCH)
    board.hand_over(target, images)
    boot = images / board.HANDED_OVER
    assert (boot / "boot/vmlinuz-6.12.91").read_bytes() == b"kernel"
    assert (boot / "usr/lib/grub/x86_64-efi/normal.mod").is_file()
    assert (boot / "usr/bin/busybox").read_bytes() == b"shell"
    assert [path.name for path in (boot / "usr/lib/modules/6.12.91").iterdir()] == [
        "modules.builtin"
    ]


def test_two_kernels_are_not_guessed_between(target: Path, images: Path) -> None:
    board.post_build(target, images, "x86_64", epoch=EPOCH)
    (images / "Image").write_bytes(b"another")
    with pytest.raises(BuildError, match="2 kernels"):
        board.hand_over(target, images)


def test_a_changed_file_makes_another_content(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    before = checkout.content(tmp_path)
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl/source.tar").write_bytes(b"download")
    assert checkout.content(tmp_path) == before
    (tmp_path / "Makefile").write_text("all: changed\n")
    assert checkout.content(tmp_path) != before
    assert "differs from Buildroot" in (checkout.difference(tmp_path) or "")


def test_without_a_checkout_the_message_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BUILDROOT_DIR", raising=False)
    assert verify.main() == 2
    said = capsys.readouterr().err
    assert "BUILDROOT_DIR is not set" in said
    assert "git clone" in said


def test_a_failed_check_names_fault_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> str:
        raise BuildError("CONFIG_A=y: gone")

    one = verify.Verification(tmp_path)
    one.check("kernel", broken, "look it up")
    assert one.results == [("kernel", False)]
    assert (
        capsys.readouterr().out
        == "FAILED   kernel: CONFIG_A=y: gone\n         remedy: look it up\n"
    )


def test_partition_names_are_read_from_the_table(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    entries = [
        struct.pack("<16s16sQQQ72s", b"t" * 16, b"u" * 16, 1, 2, 0, name.encode("utf-16-le"))
        for name in ("esp", "data")
    ]
    disk.write_bytes(bytes(1024) + b"".join(entries).ljust(128 * 128, b"\0"))
    assert contract.partition_names(disk) == ["esp", "data"]


def test_slots_of_boot_script_initrd_and_fstab_are_in_the_layout() -> None:
    assert contract.slots().startswith("esp, boot-a, root-a, boot-b, root-b, data")


def test_programs_are_found_in_units_scripts_and_commands() -> None:
    assert "/usr/sbin/nft" in {path for _, path in needs.unit_programs()}
    assert {"sfdisk", "resize2fs", "ssh-keygen"} <= {name for _, name in needs.script_programs()}
    assert {"systemctl", "cyclictest"} <= {name for _, name in needs.agent_programs()}
