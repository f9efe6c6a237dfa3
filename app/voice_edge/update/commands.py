# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge update``: thin; what it does lies in the modules beside."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..appliance import bootenv, notices, provision
from ..appliance.answers import UpdateAnswers
from ..appliance.places import Places
from ..settings import SettingsError
from . import policy
from .box import Box, UpdateError
from .fetch import FetchError
from .refusals import explain
from .state import SWITCHED, WRITTEN
from .updater import Updater

OK, FAILED, USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    given = _parser().parse_args(arguments)
    box = Box(Places(given.root))
    try:
        box.slot()
    except (bootenv.NoSlotError, OSError) as error:
        print(f"voice-edge update: {error}; updates are for the appliance", file=sys.stderr)
        return USAGE
    updater = Updater(box, _wanted(box.places), now=time.time, log=_say)
    if given.verb == "status":
        return _status(updater, given.json)
    with _one_at_a_time(box) as free:
        if not free:
            print("voice-edge update: another one is under way; see status", file=sys.stderr)
            return FAILED
        try:
            return _act(updater, box, given)
        except (UpdateError, FetchError) as error:
            print(f"voice-edge update: {error}", file=sys.stderr)
            return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="voice-edge update", description="Updates of the appliance (docs/updates.md)."
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check", help="ask the channel for a newer release; changes nothing")
    verb = verbs.add_parser("install", help="load and write a release")
    verb.add_argument("file", type=Path, nargs="?", help="a .raucb file; without it, the channel's")
    verb.add_argument("--downgrade", action="store_true", help="also if it is older")
    verb.add_argument("--now", action="store_true", help="restart into it now, calls first")
    verb = verbs.add_parser("schedule", help="when a written release is started")
    when = verb.add_mutually_exclusive_group(required=True)
    when.add_argument("--postpone", type=float, metavar="HOURS", help="not before so many hours")
    when.add_argument("--window", action="store_true", help="in the next maintenance window")
    when.add_argument("--now", action="store_true", help="now, when calls have ended")
    verbs.add_parser("rollback", help="back to the release in the other slot")
    verbs.add_parser("run", help="what is due now: the timer calls this")
    verb = verbs.add_parser("status", help="which release runs, what is pending and why")
    verb.add_argument("--json", action="store_true", help="for programs")
    return parser


def _act(updater: Updater, box: Box, given: argparse.Namespace) -> int:
    match given.verb:
        case "check":
            print(asyncio.run(updater.check()).why)
        case "install":
            return _install(updater, box, given)
        case "schedule" if given.now:
            if not updater.switch_now():
                print("voice-edge update: no release is written yet", file=sys.stderr)
                return FAILED
        case "schedule":
            updater.postpone(0 if given.window else max(0.0, given.postpone))
            print(updater.page()[0])
        case "rollback":
            updater.rollback()
        case "run":
            asyncio.run(updater.step())
            _tell(updater, box)
    return OK


def _install(updater: Updater, box: Box, given: argparse.Namespace) -> int:
    updater.reconcile()
    if given.file is not None:
        path = given.file.resolve()
        code, said = box.runner(["rauc", "info", "--output-format=shell", str(path)], 600)
        if code != 0:
            raise UpdateError(explain(said))
        found = re.search(r"^RAUC_MF_VERSION='?([^'\n]*)'?$", said, re.MULTILINE)
        updater.take(path, found[1] if found else "?", downgrade=given.downgrade)
    elif updater.state.phase != WRITTEN:
        chosen = asyncio.run(updater.check())
        if chosen.release is None:
            print(chosen.why)
            return OK
        asyncio.run(updater.load(chosen.release))
        updater.write()
    if given.now:
        updater.switch_now()
    print(updater.page()[0])
    return OK


def _tell(updater: Updater, box: Box) -> None:
    """For ``voice-edge status`` and the consoles: what needs somebody."""
    lines = policy.expiry_alarm(time.time(), box.certificates())
    if updater.state.phase in (WRITTEN, SWITCHED):
        lines.append(updater.page()[0])
    lines += [f"{f.version}: {f.reason}" for f in updater.state.failures[-1:]]
    notices.tell(box.places, "update", lines)


def _status(updater: Updater, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(updater.state), indent=2))
    else:
        print("\n".join(updater.page()))
    return OK


def _wanted(places: Places) -> UpdateAnswers:
    """Answers with a mistake are told by provision; updates go on with what needs none."""
    try:
        answers = provision.stored(places)
    except (SettingsError, OSError, UnicodeDecodeError):
        answers = None
    return UpdateAnswers() if answers is None else answers.update


def _say(line: str) -> None:
    print(f"voice-edge update: {line}", file=sys.stderr, flush=True)


class _one_at_a_time:
    """The timer and an operator do not write one slot at once."""

    def __init__(self, box: Box) -> None:
        self._path = box.places.run / "update.lock"

    def __enter__(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
