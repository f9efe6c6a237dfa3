# SPDX-License-Identifier: GPL-3.0-or-later
"""Tool tree, keys and boxes of the tests of updates."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from image import toolroot
from image.toolroot import ToolRoot
from ota import pki
from ota.build import Signer
from ota.pki import Authority

from .box import Box, Factory, loops_work


@dataclass
class Keys:
    """Made for this run of the tests, and gone with it."""

    ours: Authority
    theirs: Authority
    signer: Signer
    stranger: Signer
    expired: Signer


@pytest.fixture(scope="session")
def tools() -> Iterator[ToolRoot]:
    """The image's tool tree, with a work folder of our own."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip(
            "needs root and mmdebstrap, for the image's tool tree (`./justw image …` sets them up)"
        )
    with tempfile.TemporaryDirectory(prefix="voice-edge-ota-") as folder:
        yield toolroot.get(Path(folder))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    ours, theirs = (pki.authority(folder, name) for name in ("ours", "theirs"))
    return Keys(
        ours,
        theirs,
        ours.signer("release"),
        theirs.signer("stranger"),
        ours.signer("expired", ends="20210101000000Z"),
    )


@pytest.fixture(scope="session")
def factory(tools: ToolRoot) -> Factory:
    return Factory(tools, tools.work)


@pytest.fixture
def box(tools: ToolRoot, keys: Keys, request: pytest.FixtureRequest) -> Box:
    return Box(tools, re.sub(r"\W", "-", f"box-{request.node.name}")).make(keys.ours.cert)


@pytest.fixture(scope="session")
def loops() -> None:
    """For tests that let RAUC mount a bundle."""
    if not loops_work():
        pytest.skip("no loop device can be had here")
