# SPDX-License-Identifier: GPL-3.0-or-later
"""A release's first start: it is marked good, or the box goes back at once and the reason stays.

What stops before it comes so far (a kernel, the init system) is left by the boot loader after three tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..appliance import files, grubenv
from ..appliance.bootenv import preferring
from ..settings import SettingsError
from . import loop_call, state
from .box import Box

KEPT_ANSWERS = 3
PROVED_WITHIN_S = 300.0
AGAIN_S = 5.0


def on_trial(box: Box) -> state.State | None:
    """What this start is to prove; None when it is not a release's first."""
    kept = state.load(box.state)
    if kept.phase != state.SWITCHED or not kept.from_slot or box.slot() == kept.from_slot:
        return None
    return kept


def give_up(box: Box, reason: str) -> bool:
    """Back into the slot before, now. False when this is no trial, or the boot counters cannot be written.

    Then the tries run out as they do without us.
    """
    kept = on_trial(box)
    if kept is None:
        return False
    here = box.slot()
    files.write(box.folder / f"gate-{kept.version}.txt", f"{kept.version}: {reason}\n", mode=0o600)
    try:
        with grubenv.locked(box.places.run):
            values = preferring(grubenv.read(box.places.grubenv), kept.from_slot)
            grubenv.write(box.places.grubenv, {**values, f"{here}_OK": "0"})
    except (OSError, grubenv.DamagedError):
        return False
    box.reboot()
    return True


def settings_fault(box: Box) -> str:
    """What this release does not accept of the answers in force; empty when it accepts them."""
    from ..appliance import provision

    try:
        provision.stored(box.places)
    except (SettingsError, UnicodeDecodeError) as error:
        return f"does not accept the settings: {str(error).splitlines()[0]}"
    except OSError as error:
        return f"cannot read the settings: {error.strerror}"
    return ""


def calls_fault(
    box: Box,
    trial: state.State,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """What this release cannot do with calls that the one before could; empty when it can all of that.

    Tried again for five minutes: model servers and trunks may be slow to take a box back.
    """
    until = now() + PROVED_WITHIN_S
    reached, trunks = loop_call.NOTHING, 0
    while True:
        reached = max(reached, box.loop_call())
        trunks = box.trunks_up()
        if reached >= trial.call_before and trunks >= trial.trunks_before:
            return ""
        if now() >= until:
            break
        sleep(AGAIN_S)
    if reached < trial.call_before:
        wanted, found = loop_call.NAMES[trial.call_before], loop_call.NAMES[reached]
        return f"a call to its own agent was {found}; by {trial.from_version} it was {wanted}"
    return f"{trunks} trunks are up; with {trial.from_version} there were {trial.trunks_before}"


def keep_settings(box: Box) -> None:
    """A copy of the answers for this release, which it goes back to if a newer one changes them. Raises OSError."""
    places = box.places
    version = places.version()
    if not version or not places.stored.exists():
        return
    files.write(places.kept / f"{version}.toml", places.stored.read_bytes(), mode=0o600)
    by_age = sorted(places.kept.glob("*.toml"), key=lambda path: path.stat().st_mtime)
    for old in by_age[:-KEPT_ANSWERS]:
        old.unlink()
