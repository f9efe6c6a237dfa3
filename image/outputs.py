# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user flashes: raw image compressed with zstd, its block map, qcow2, and their checksums."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from image.toolroot import ToolRoot
from tools.cache import sha256_of

BLOCK = 4096


def write(disk: Path, name: str, out: Path, tools: ToolRoot) -> list[Path]:
    """Write ``name``.img.zst, .img.bmap and .qcow2 into ``out``, and SHA256SUMS; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    made = [out / f"{name}.img.zst", out / f"{name}.img.bmap", out / f"{name}.qcow2"]
    tools.run(["zstd", "-q", "-f", "-10", "--single-thread", disk.name, "-o", "out.zst"])
    tools.run(
        ["qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", "-c", disk.name, "out.qcow2"]
    )
    made[1].write_text(block_map(disk, f"{name}.img"))
    for source, target in (("out.zst", made[0]), ("out.qcow2", made[2])):
        shutil.move(tools.work / source, target)
    sums = out / "SHA256SUMS"
    # The other architecture's lines stay.
    ours = {path.name for path in made}
    kept = sums.read_text().splitlines(keepends=True) if sums.exists() else []
    lines = [line for line in kept if line.split()[-1] not in ours]
    lines += [f"{sha256_of(path)}  {path.name}\n" for path in made]
    sums.write_text("".join(sorted(lines, key=lambda line: line.split()[-1])))
    return [*made, sums]


def block_map(disk: Path, name: str) -> str:
    """Return the block map of ``disk`` (bmap-tools' format 2.0): which blocks hold data, with checksums."""
    size = disk.stat().st_size
    ranges = list(_used_ranges(disk))
    used = sum(last - first + 1 for first, last, _ in ranges)
    lines = [
        '<?xml version="1.0" ?>',
        '<bmap version="2.0">',
        f"    <ImageSize> {size} </ImageSize>",
        f"    <BlockSize> {BLOCK} </BlockSize>",
        f"    <BlocksCount> {-(-size // BLOCK)} </BlocksCount>",
        f"    <MappedBlocksCount> {used} </MappedBlocksCount>",
        "    <ChecksumType> sha256 </ChecksumType>",
        f"    <BmapFileChecksum> {'0' * 64} </BmapFileChecksum>",
        "    <BlockMap>",
        *(
            f'        <Range chksum="{digest}"> {first}-{last} </Range>'
            if first != last
            else f'        <Range chksum="{digest}"> {first} </Range>'
            for first, last, digest in ranges
        ),
        "    </BlockMap>",
        "</bmap>",
    ]
    text = "\n".join(lines) + "\n"
    # The checksum of the file is taken with its own field as zeros, then put in.
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest(), 1)


def _used_ranges(disk: Path) -> Iterator[tuple[int, int, str]]:
    zero = bytes(BLOCK)
    first, digest, number = -1, hashlib.sha256(), -1
    with disk.open("rb") as file:
        while block := file.read(BLOCK):
            number += 1
            if block == zero[: len(block)]:
                if first >= 0:
                    yield first, number - 1, digest.hexdigest()
                    first, digest = -1, hashlib.sha256()
                continue
            if first < 0:
                first = number
            digest.update(block)
    if first >= 0:
        yield first, number, digest.hexdigest()
