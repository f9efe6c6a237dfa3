# SPDX-License-Identifier: GPL-3.0-or-later
"""The block map, read as bmaptool reads it: every block that holds something, and the right sums."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from image.outputs import BLOCK, block_map

FULL, EMPTY = b"\1" * BLOCK, bytes(BLOCK)


def parse(text: str) -> tuple[dict[str, str], list[tuple[int, int, str]]]:
    """Fields of the map, and its ranges: first and last block, checksum."""
    tree = ElementTree.fromstring(text)
    assert tree.attrib["version"] == "2.0"
    fields = {child.tag: (child.text or "").strip() for child in tree}
    ranges = []
    for entry in tree.iter("Range"):
        first, _, last = (entry.text or "").strip().partition("-")
        ranges.append((int(first), int(last or first), entry.attrib["chksum"]))
    return fields, ranges


def made(tmp_path: Path, content: bytes) -> str:
    disk = tmp_path / "disk.img"
    disk.write_bytes(content)
    return block_map(disk, "disk.img")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (FULL, [(0, 0)]),
        (EMPTY + FULL + FULL + EMPTY, [(1, 2)]),
        (FULL + EMPTY + FULL, [(0, 0), (2, 2)]),
        (EMPTY * 3, []),
        (EMPTY + FULL + b"\2\3", [(1, 2)]),  # the last block is a part of one
        (FULL + bytes(100), [(0, 0)]),
    ],
)
def test_ranges_cover_what_is_used(
    tmp_path: Path, content: bytes, wanted: list[tuple[int, int]]
) -> None:
    fields, ranges = parse(made(tmp_path, content))
    assert [(first, last) for first, last, _ in ranges] == wanted
    assert int(fields["ImageSize"]) == len(content)
    assert int(fields["BlocksCount"]) == -(-len(content) // BLOCK)
    assert int(fields["MappedBlocksCount"]) == sum(last - first + 1 for first, last in wanted)
    for first, last, checksum in ranges:
        used = content[first * BLOCK : (last + 1) * BLOCK]
        assert checksum == hashlib.sha256(used).hexdigest()


def test_sum_of_the_map_is_taken_with_its_field_zeroed(tmp_path: Path) -> None:
    text = made(tmp_path, EMPTY + FULL)
    own = parse(text)[0]["BmapFileChecksum"]
    zeroed = re.sub(own, "0" * 64, text, count=1)
    assert hashlib.sha256(zeroed.encode()).hexdigest() == own


def test_map_of_the_same_disk_is_the_same(tmp_path: Path) -> None:
    assert made(tmp_path, FULL + EMPTY) == made(tmp_path, FULL + EMPTY)
