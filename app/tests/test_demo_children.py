# SPDX-License-Identifier: GPL-3.0-or-later
"""Children of the demo end with it. Short-lived real processes; Linux."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from voice_edge.demo.children import Child
from voice_edge.demo.problems import DemoError

SLEEP = "import sys, time; open(sys.argv[1], 'w').write('up'); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


class Nursery:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "mark"
        self.children: list[Child] = []

    def start(self, code: str) -> Child:
        command = [sys.executable, "-c", code, str(self.mark)]
        child = Child("the child", command, self.folder / "log")
        self.children.append(child)
        return child


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path)
    yield made
    for child in made.children:
        child.kill()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


async def test_a_child_is_asked_to_end(nursery: Nursery) -> None:
    child = nursery.start(SLEEP)
    assert await child.wait_for_file(nursery.mark, 10) == "up"
    assert os.getpgid(child.pid) == child.pid, "Ctrl-C must not reach it directly"
    assert await child.stop() == -15
    assert gone(child.pid)


async def test_a_deaf_child_is_killed(nursery: Nursery) -> None:
    child = nursery.start(DEAF)
    await child.wait_for_file(nursery.mark, 10)
    assert await child.stop(grace_s=0.1) == -9


async def test_a_child_that_fails_shows_its_last_words(nursery: Nursery) -> None:
    child = nursery.start("import sys; sys.exit('no model here')")
    with pytest.raises(DemoError, match=r"(?s)exit code 1.*no model here"):
        await child.wait_for_file(nursery.mark, 10)


async def test_a_child_that_is_never_ready_is_named(nursery: Nursery) -> None:
    child = nursery.start("import time; time.sleep(60)")
    with pytest.raises(DemoError, match="the child was not ready after 0 s"):
        await child.wait_for_file(nursery.mark, 0.1)


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    parent = (
        "import sys, time; from pathlib import Path; from voice_edge.demo.children import Child\n"
        f"child = Child('c', [sys.executable, '-c', {SLEEP!r}, {str(mark)!r}], Path({str(tmp_path / 'log')!r}))\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        deadline = time.monotonic() + 10
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    while not gone(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(child)
