# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's environment block and script: what the boot loader and the appliance agree on."""

from __future__ import annotations

import pytest

from image.arch import ARCHES, Arch
from image.disk import grub
from image.disk.layout import partitions
from voice_edge.appliance import bootenv, grubenv


def test_block_as_flashed_is_read_by_the_appliance() -> None:
    block = grub.environment(grub.FIRST_ENVIRONMENT)
    values = grubenv.decode(block)
    assert values == grub.FIRST_ENVIRONMENT
    assert bootenv.faults(values) == ""


def test_block_is_as_grub_writes_it() -> None:
    block = grub.environment({"A_TRY": "0"})
    assert block == b"# GRUB Environment Block\nA_TRY=0\n" + b"#" * (1024 - 33)


def test_block_of_the_appliance_is_the_same() -> None:
    assert grubenv.encode(grub.FIRST_ENVIRONMENT) == grub.environment(grub.FIRST_ENVIRONMENT)


def test_too_much_for_a_block_is_refused() -> None:
    grub.environment({"X": "y" * (1024 - len("# GRUB Environment Block\nX=\n"))})
    with pytest.raises(ValueError, match="1024"):
        grub.environment({"X": "y" * 1000})


def test_as_flashed_only_the_slot_that_holds_something_may_start() -> None:
    assert grub.FIRST_ENVIRONMENT["A_OK"] == "1"
    assert grub.FIRST_ENVIRONMENT["B_OK"] == "0"
    assert grub.FIRST_ENVIRONMENT["ORDER"].split()[0] == "A"


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_script_is_of_its_architecture(arch: Arch) -> None:
    text = grub.script(arch).decode()
    assert "@" not in text, "a placeholder is left"
    assert f"console={arch.console}" in text


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_script_counts_partitions_as_the_layout_does(arch: Arch) -> None:
    numbers = {partition.name: n for n, partition in enumerate(partitions(arch), 1)}
    text = grub.script(arch).decode()
    assert f'set boot_a="$disk,gpt{numbers["boot-a"]}"' in text
    assert f'set boot_b="$disk,gpt{numbers["boot-b"]}"' in text


def test_script_saves_every_counter_it_loads() -> None:
    text = grub.script(ARCHES["x86_64"]).decode()
    for name in grub.FIRST_ENVIRONMENT:
        loads = next(line for line in text.splitlines() if line.startswith("load_env"))
        assert name in loads.split(), f"{name} is flashed, and never read"
    saves = next(line for line in text.splitlines() if line.startswith("save_env"))
    assert {"A_TRY", "B_TRY", "REFILLED"} <= set(saves.split())
