# SPDX-License-Identifier: GPL-3.0-or-later
"""The subcommands of the appliance: thin; what they do lies in the modules beside."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..settings import SettingsError
from . import bootenv, files, grubenv, notices, provision, report, status
from .places import Places
from .realtime import PolicyError, apply, plan_for

OK, FAILED = 0, 1
_AGENT = "voice-edge.service"
_GOOD_WITHIN_S = 600.0
_FALLS_OF_A_TRIAL = 5
"""How often systemd restarts the agent of a new release before that is left: about a minute."""
_RELOADED = (
    "voice-edge-hostname.service",
    "systemd-networkd.service",
    "voice-edge-firewall.service",
    "chrony.service",
)
# These may have waited for a first answer; the second may restart the box once, if the cores for media changed.
_STARTED = ("ssh.service", "voice-edge-realtime.service", _AGENT)


def main(command: str, arguments: Sequence[str]) -> int:
    """Run subcommand ``command``; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"voice-edge {command}", description=COMMANDS[command][1])
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    if command in ("realtime-report", "status"):
        parser.add_argument("--json", action="store_true", help="for programs")
    if command == "realtime-report":
        parser.add_argument(
            "--seconds",
            type=int,
            default=10,
            help="how long to measure wake-ups; 0 measures nothing",
        )
    if command == "status":
        parser.add_argument("--watch", action="store_true", help="again whenever something changes")
        parser.add_argument(
            "--to",
            type=Path,
            action="append",
            default=[],
            help="with --watch: a terminal to write to",
        )
    if command == "provision":
        parser.add_argument(
            "--now", action="store_true", help="restart the services that what changed concerns"
        )
    given = parser.parse_args(arguments)
    return COMMANDS[command][0](Places(given.root), given)


def _provision(places: Places, given: argparse.Namespace) -> int:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    try:
        outcome = provision.run(places, Path(folder) if folder else None)
    except OSError as error:
        notices.tell(places, "provision", [f"{error.filename}: {error.strerror}"])
        return FAILED
    notices.tell(places, "provision", outcome.problems)
    if outcome.source:
        print(f"voice-edge provision: new answers taken from {outcome.source}", flush=True)
    if given.now and outcome.changed:
        _systemctl("--no-block", "try-restart", *_RELOADED)
        _systemctl("--no-block", "restart", *_STARTED)
    unprovisioned = not outcome.provisioned and outcome.problems == (provision.NOT_YET,)
    return FAILED if outcome.problems and not unprovisioned else OK


def _realtime_apply(places: Places, _: argparse.Namespace) -> int:
    try:
        answers = provision.stored(places)
    except (SettingsError, OSError):
        answers = None  # told by provision already
    try:
        outcome = apply(places, plan_for(places.root, answers))
    except PolicyError as error:
        notices.tell(places, "realtime", [str(error)])
        return FAILED
    except OSError as error:
        notices.tell(places, "realtime", [f"{error.filename}: {error.strerror}"])
        return FAILED
    notices.tell(places, "realtime", [outcome.problem] if outcome.problem else [])
    if outcome.reboot:
        print("voice-edge realtime: cores are set aside for media; restarting once", flush=True)
        _systemctl("--no-block", "reboot")
    return FAILED if outcome.problem else OK


def _bootenv(places: Places, _: argparse.Namespace) -> int:
    return _with_counters(places, "boot counters", bootenv.repair, "were made anew: the block {}")


def _mark_good(places: Places, given: argparse.Namespace) -> int:
    # Here, since the other commands of a start have no need of all that comes with it.
    from ..update import gate
    from ..update.box import Box

    box = Box(places)
    try:
        trial = gate.on_trial(box)
    except bootenv.NoSlotError:
        trial = None  # told below
    if trial is not None and (fault := gate.settings_fault(box)) and gate.give_up(box, fault):
        return FAILED
    # Without answers no agent runs, and the slot is good all the same.
    provisioned = (places.agent / "voice-edge.toml").exists()
    falls = None if trial is None else _FALLS_OF_A_TRIAL
    if provisioned and not _agent_runs(time.monotonic() + _GOOD_WITHIN_S, falls):
        if not gate.give_up(box, "the agent did not start"):
            text = f"is not marked good: {_AGENT} does not run. See `journalctl -u voice-edge`"
            notices.tell(places, "slot", [text])
        return FAILED
    if trial is not None and provisioned and (fault := gate.calls_fault(box, trial)):
        if not gate.give_up(box, fault):
            notices.tell(places, "slot", [f"is not marked good: {fault}"])
        return FAILED
    code = _with_counters(places, "slot", bootenv.mark_good, "")
    if code == OK:
        # For `status`, which is asked often and must not keep the ESP mounted.
        files.write(places.slot_good, "")
        try:
            # Without a keyring no other release can come.
            if box.keyring.exists():
                gate.keep_settings(box)
        except OSError as error:
            print(f"voice-edge slot: {error.filename}: {error.strerror}", file=sys.stderr)
    return code


def _with_counters(places: Places, topic: str, action: Callable[[Places], str], news: str) -> int:
    try:
        said = action(places)
    except bootenv.NoSlotError as error:
        print(f"voice-edge {topic}: {error}", file=sys.stderr)
        return OK
    except (OSError, grubenv.DamagedError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "The ESP cannot be written: check it, or flash the image again"
        notices.tell(places, topic, [f"{places.grubenv}: {reason}. {remedy}"])
        return FAILED
    notices.tell(places, topic, [])
    if said and news:
        print(f"voice-edge {topic}: {news.format(said)}", file=sys.stderr, flush=True)
    return OK


def _agent_runs(until: float, falls: int | None) -> bool:
    """Wait for it until then, or until it has fallen so many times."""
    while True:
        if _systemctl("is-active", "--quiet", _AGENT) == 0:
            return True
        if time.monotonic() >= until or (falls is not None and _fallen() >= falls):
            return False
        time.sleep(2)


def _fallen() -> int:
    said = status.run(["systemctl", "show", "--property=NRestarts", "--value", _AGENT]).strip()
    return int(said) if said.isdigit() else 0


def _systemctl(*words: str) -> int:
    return subprocess.run(["systemctl", *words], check=False).returncode


def _report(places: Places, given: argparse.Namespace) -> int:
    found = report.collect(places, seconds=given.seconds)
    print(json.dumps(found.tree(), indent=2) if given.json else found.text())
    return OK if found.verdict.good else FAILED


def _status(places: Places, given: argparse.Namespace) -> int:
    if given.watch:
        status.watch(places, given.to)
    found = status.collect(places)
    print(json.dumps(found.tree(), indent=2) if given.json else found.text())
    return OK if found.healthy else FAILED


Command = Callable[[Places, argparse.Namespace], int]
COMMANDS: dict[str, tuple[Command, str]] = {
    "provision": (_provision, "take in the answer file and write what the system reads"),
    "realtime-apply": (_realtime_apply, "set cores aside for media by the machine's policy"),
    "realtime-report": (_report, "what is in force of real time, and how well it does"),
    "bootenv": (_bootenv, "mend damaged boot counters"),
    "mark-good": (_mark_good, "give the running slot its boot tries back, once the agent runs"),
    "status": (_status, "slot, version, health, and what needs attention"),
}
