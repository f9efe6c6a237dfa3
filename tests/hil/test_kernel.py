# SPDX-License-Identifier: GPL-3.0-or-later
"""The voice activity kernel of the aarch64 bundle under QEMU's user emulation: NEON gives the bits of this machine."""

from __future__ import annotations

import json
import os
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bundle import core, trees
from core.reference.vad_golden import voice
from image import emulation
from image.arch import ARCHES
from image.run import BuildError
from tools.cache import cache_dir
from voicecore import _core

AARCH64 = ARCHES["aarch64"]
CALLS = (1, 7, 17)
"""One vector's lanes are 4: less than one, one and a part, several tiles."""
WINDOWS = 3
LENGTHS = {8000: 256, 16000: 512}
INSIDE = """
import json, sys
sys.path.insert(0, "/work/site")
from voicecore import _core
pcm = open(f"/work/{sys.argv[1]}.pcm", "rb").read()
print(json.dumps([_core.speech_probabilities(pcm, int(sys.argv[1]), int(n)) for n in sys.argv[2:]]))
"""

Found = list[tuple[str, list[int]]]


def sound(rate: int) -> bytes:
    """Syllables by integers, the same everywhere."""
    samples = LENGTHS[rate] * WINDOWS + max(CALLS) * 331
    return np.array(list(islice(voice(rate), samples)), "<i2").tobytes()


def found_here(rate: int) -> list[Found]:
    return [_core.speech_probabilities(sound(rate), rate, calls) for calls in CALLS]


@pytest.mark.parametrize("rate", LENGTHS)
def test_all_instruction_sets_of_this_machine_give_the_same_bits(rate: int) -> None:
    for calls, found in zip(CALLS, found_here(rate), strict=True):
        assert found[-1][0] == "scalar"
        assert len(found[-1][1]) >= WINDOWS * calls
        assert len(set(found[-1][1])) > WINDOWS, "the sound says something"
        for name, bits in found:
            assert bits == found[-1][1], f"{name}, {calls} calls"


@pytest.mark.slow
@pytest.mark.parametrize("rate", LENGTHS)
def test_neon_under_emulation_gives_the_bits_of_this_machine(rate: int, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it enters a Debian tree")
    compiled = core.made(AARCH64, cache_dir() / "bundle")
    if compiled is None:
        pytest.skip("the core of this checkout was not compiled: `./justw bundle aarch64`")
    try:
        emulation.emulate(AARCH64)
    except BuildError as error:
        pytest.skip(f"no QEMU user emulation here: {error}")
    tree = trees.freezing(AARCH64, tmp_path)
    shutil.copytree(compiled.site, tmp_path / "site")
    (tmp_path / f"{rate}.pcm").write_bytes(sound(rate))
    printed = tree.run(
        ["python3", "-B", "-c", INSIDE, str(rate), *map(str, CALLS)],
        env=emulation.environment(AARCH64),
    )
    for calls, here, there in zip(CALLS, found_here(rate), json.loads(printed), strict=True):
        assert [name for name, _ in there] == ["neon", "scalar"]
        for name, bits in there:
            assert bits == here[-1][1], f"{name} of aarch64, {calls} calls"
