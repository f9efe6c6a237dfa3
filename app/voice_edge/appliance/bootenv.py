# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot counters from user space: mended when damaged, and this slot marked good when it works."""

from __future__ import annotations

from . import grubenv
from .places import Places

SLOTS = ("A", "B")
_FLAGS = {"A_OK": "01", "A_TRY": "0123", "B_OK": "01", "B_TRY": "0123", "REFILLED": "01"}


class NoSlotError(Exception):
    """This system was not started from a slot."""


def running_slot(places: Places) -> str:
    """``A`` or ``B``. Raises :class:`NoSlotError`."""
    slot = places.command_line().get("voice.slot", "").upper()
    if slot not in SLOTS:
        raise NoSlotError(
            "the kernel was not told a slot: not started by the appliance's boot loader"
        )
    return slot


def fresh(slot: str) -> dict[str, str]:
    """As flashed, but for the running slot: it works, so it is the one to start, with all its tries.

    The other one may hold anything; when this slot's tries run out, GRUB's script allows it again.
    """
    other = "B" if slot == "A" else "A"
    values = {"ORDER": f"{slot} {other}"}
    for name in SLOTS:
        values |= {f"{name}_OK": "1" if name == slot else "0", f"{name}_TRY": "0"}
    return {**values, "REFILLED": "0", "LAST_GOOD": slot}


def preferring(values: dict[str, str], slot: str) -> dict[str, str]:
    """``slot`` is tried next, with all its tries; as RAUC's GRUB backend marks a slot active."""
    other = "B" if slot == "A" else "A"
    return {**values, "ORDER": f"{slot} {other}", f"{slot}_OK": "1", f"{slot}_TRY": "0"}


def faults(values: dict[str, str]) -> str:
    """What makes these counters unusable; empty when nothing does."""
    if sorted(values.get("ORDER", "").split()) not in (["A"], ["B"], ["A", "B"]):
        return "ORDER names no slot"
    for name, allowed in _FLAGS.items():
        value = values.get(name, "")
        # REFILLED came later than the counters: older blocks may lack it.
        if value not in allowed or (not value and name != "REFILLED"):
            return f"{name} is not one of {', '.join(allowed)}"
    return ""


def repair(places: Places) -> str:
    """Make the block anew when it is missing or damaged. Returns what was wrong; raises OSError."""
    slot = running_slot(places)
    with grubenv.locked(places.run):
        kept: dict[str, str] = {}
        try:
            values = grubenv.read(places.grubenv)
            wrong = faults(values)
            kept = {name: values[name] for name in ("rt_args",) if name in values}
        except FileNotFoundError:
            wrong = "is missing"
        except grubenv.DamagedError as error:
            wrong = str(error)
        if wrong:
            grubenv.write(places.grubenv, {**fresh(slot), **kept})
    return wrong


def mark_good(places: Places) -> str:
    """This slot works: it gets its tries back. Returns its name; raises OSError or DamagedError."""
    slot = running_slot(places)
    with grubenv.locked(places.run):
        values = grubenv.read(places.grubenv)
        good = {f"{slot}_OK": "1", f"{slot}_TRY": "0", "REFILLED": "0", "LAST_GOOD": slot}
        if not values.items() >= good.items():
            grubenv.write(places.grubenv, {**values, **good})
            if not grubenv.read(places.grubenv).items() >= good.items():
                raise grubenv.DamagedError("holds something else than was just written")
    return slot
