# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines on loopback."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from voicecore import Engine, EngineConfig

# For `loopback`, which the tests share. Last, so that an installed voicecore comes first.
sys.path.append(str(Path(__file__).parent.parent))
from loopback import Pair, StartEngine


@pytest_asyncio.fixture
async def start_engine() -> AsyncIterator[StartEngine]:
    """Starts engines on free ports of 127.0.0.1; all are stopped afterwards."""
    engines: list[Engine] = []

    async def start(**settings: Any) -> Engine:
        engine = Engine(EngineConfig(**{"bind": "127.0.0.1", "sip_port": 0, **settings}))
        await engine.start()
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        await engine.stop()


@pytest_asyncio.fixture
async def pair(start_engine: StartEngine, tmp_path: Path) -> Pair:
    """Two engines; both record."""
    settings = {"recording_dir": tmp_path}
    return Pair(await start_engine(**settings), await start_engine(**settings))
