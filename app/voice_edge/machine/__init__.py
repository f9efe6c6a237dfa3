# SPDX-License-Identifier: GPL-3.0-or-later
"""The call state machine: events and the time in, actions out, no I/O."""

from .agent_side import State
from .machine import CallMachine
from .policy import Policy
from .turns import AgentTurn, CallerTurn, History, Kind, Segment, Sentence

__all__ = [
    "AgentTurn",
    "CallMachine",
    "CallerTurn",
    "History",
    "Kind",
    "Policy",
    "Segment",
    "Sentence",
    "State",
]
