# SPDX-License-Identifier: GPL-3.0-or-later
"""What the model may do to the call beside talking. It is done when its words have been heard.

So a caller who speaks up in time keeps the call as it is: the turn is cut, and the deed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

HANG_UP = "hang_up"
TRANSFER = "transfer_call"


@dataclass(frozen=True, slots=True)
class Destination:
    """Whom the model may put callers through to."""

    name: str
    description: str
    target: str = field(repr=False)  # SIP URI


@dataclass(frozen=True, slots=True)
class Deed:
    """What follows a turn."""

    hang_up: bool = False
    target: str = field(default="", repr=False)


def deed(
    name: str, arguments: Mapping[str, Any], hang_up: bool, to: Iterable[Destination]
) -> Deed | None:
    """What the model's call of a tool means; None when there is no such tool or destination."""
    if name == HANG_UP and hang_up:
        return Deed(hang_up=True)
    if name == TRANSFER:
        wanted = arguments.get("destination")
        return next((Deed(target=d.target) for d in to if d.name == wanted), None)
    return None


def described(hang_up: bool, to: Iterable[Destination]) -> list[dict[str, Any]]:
    """The tools as a chat completion request declares them (JSON schema)."""
    tools = []
    if hang_up:
        tools.append(
            _function(HANG_UP, "End the telephone call, once goodbyes have been said.", {})
        )
    to = list(to)
    if to:
        text = "Put the caller through. " + " ".join(f"{d.name}: {d.description}" for d in to)
        names = {"type": "string", "enum": [d.name for d in to]}
        tools.append(_function(TRANSFER, text, {"destination": names}))
    return tools


def _function(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
