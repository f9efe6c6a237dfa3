# SPDX-License-Identifier: GPL-3.0-or-later
"""The partition layout: the same for every build, different for every partition, as UEFI and systemd know it."""

from __future__ import annotations

import uuid

import pytest

from image.arch import ARCHES, Arch
from image.disk.layout import ESP_TYPE, MIB, ROOT_MIB, fixed_uuid, partitions

EVERY = pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)


@EVERY
def test_slots_are_twins_and_data_is_last(arch: Arch) -> None:
    table = partitions(arch)
    sizes = {partition.name: partition.mib for partition in table}
    assert [p.name for p in table] == ["esp", "boot-a", "root-a", "boot-b", "root-b", "data"]
    assert sizes["boot-a"] == sizes["boot-b"]
    assert sizes["root-a"] == sizes["root-b"] == ROOT_MIB


@EVERY
def test_firmware_finds_its_partition(arch: Arch) -> None:
    esp = partitions(arch)[0]
    assert esp.type_guid == ESP_TYPE == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
    assert esp.mib * MIB >= 33 * MIB, "FAT32 needs 65,525 clusters"


@EVERY
def test_guids_are_their_own_and_well_formed(arch: Arch) -> None:
    guids = [partition.guid for partition in partitions(arch)]
    assert len(set(guids)) == len(guids)
    for partition in partitions(arch):
        assert str(uuid.UUID(partition.guid)).upper() == partition.guid
        assert str(uuid.UUID(partition.type_guid)).upper() == partition.type_guid


def test_roots_are_told_apart_by_architecture() -> None:
    kinds = {arch.root_guid for arch in ARCHES.values()}
    assert len(kinds) == len(ARCHES)
    for arch in ARCHES.values():
        roots = [p for p in partitions(arch) if p.name.startswith("root-")]
        assert {p.type_guid for p in roots} == {arch.root_guid}


def test_fixed_uuid_never_moves() -> None:
    # In flashed boxes' partition tables: another value here would be another disk to them.
    assert fixed_uuid("partition data") == uuid.UUID(str(fixed_uuid("partition data")))
    assert fixed_uuid("disk") == uuid.uuid5(
        uuid.UUID("6a4b8f0e-52a9-5c1d-8f1e-3c7d0b1f9e42"), "disk"
    )
    assert fixed_uuid("a") != fixed_uuid("b")
