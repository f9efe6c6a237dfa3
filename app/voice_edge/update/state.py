# SPDX-License-Identifier: GPL-3.0-or-later
"""What the box knows about its updates, kept on /data: both slots read it, whichever of them runs."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..appliance import files

IDLE, FETCHED, WRITTEN, SWITCHED = "idle", "fetched", "written", "switched"
PHASES = (IDLE, FETCHED, WRITTEN, SWITCHED)
KEPT_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """A release that did not become the running one, and why."""

    version: str
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class State:
    """``phase``: idle; fetched: the release lies on /data; written: it is in the other slot; switched: the box was
    restarted into it and it has not proved itself yet. Times are Unix seconds. ``call_before`` (loop_call.py) and
    ``trunks_before`` (how many were up) are what the release before could do, and the new one has to."""

    phase: str = IDLE
    version: str = ""
    file: str = ""
    downgrade: bool = False
    from_version: str = ""
    from_slot: str = ""
    boot: str = ""
    call_before: int = 0
    trunks_before: int = 0
    at: int = 0
    serial: int = 0
    checked: int = 0
    said: str = ""
    tries: int = 0
    next_try: int = 0
    postponed: int = 0
    now: bool = False
    failures: tuple[Failure, ...] = ()
    last_good: str = ""

    def failed(self, version: str, at: float, reason: str) -> State:
        """With that failure, and nothing under way any more."""
        kept = [f for f in self.failures if f.version != version][-(KEPT_FAILURES - 1) :]
        return dataclasses.replace(
            self, phase=IDLE, version="", file="", now=False, downgrade=False,
            failures=(*kept, Failure(version, int(at), reason)),
        )  # fmt: skip

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"


def load(path: Path) -> State:
    """What is kept; a file that is missing or damaged begins anew, since nothing in it is needed to run."""
    try:
        tree = json.loads(path.read_text())
        return _state(tree)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return State()


def save(path: Path, state: State) -> None:
    """Whole or not at all. Raises OSError."""
    files.write(path, state.text(), mode=0o600)


def _state(tree: dict[str, Any]) -> State:
    """A newer release may have written more: what this one does not know is left."""
    known = {f.name: f.default for f in dataclasses.fields(State)}
    values = {n: v for n, v in tree.items() if n in known}
    for name, value in values.items():
        if name != "failures" and type(value) is not type(known[name]):
            raise TypeError(name)
    failures = tuple(
        Failure(str(f["version"]), int(f["at"]), str(f["reason"])) for f in tree.get("failures", ())
    )
    state = State(**{**values, "failures": failures})
    if state.phase not in PHASES:
        raise ValueError(state.phase)
    return state
