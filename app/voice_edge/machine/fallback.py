# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left when nothing answers: a menu by keys, a human by transfer, goodbye.

None of it needs a model server: the phrases are cached, keys and transfer are the core's.
"""

from __future__ import annotations

from . import events as ev
from .agent_side import State
from .patience import PatientSide
from .policy import Policy
from .timers import Timer
from .tools import Deed
from .turns import Kind

KEY_HUMAN = "1"
KEY_RETRY = "2"


class FallbackSide(PatientSide):
    """The steps down, one at a time."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._menu_said = False
        self.transferring = False
        self._asked = False  # the transfer is the model's wish

    def _fall_back(self, now: int) -> None:
        policy = self.policy
        if policy.transfer and policy.menu and not self._menu_said:
            self._menu_said = True
            self._say_phrase(Kind.MENU, policy.menu, now)
        elif policy.transfer:
            self._say_phrase(Kind.TRANSFER, policy.transfer_phrase, now)
        else:
            self._say_phrase(Kind.GOODBYE, policy.goodbye, now)

    def _menu_over(self, now: int) -> None:
        """It was said, or cannot be: wait for a key."""
        self._listen(now)
        self._timers.disarm(Timer.IDLE)
        self._timers.arm(Timer.MENU, now + self.policy.menu_ns)

    def _key(self, event: ev.Key, now: int) -> None:
        in_menu = Timer.MENU in self._timers or (
            self._agent is not None and self._agent.kind is Kind.MENU
        )
        if not in_menu or event.digit not in (KEY_HUMAN, KEY_RETRY):
            return
        self._timers.disarm(Timer.MENU)
        self._drop_segment()
        if event.digit == KEY_HUMAN:
            self._say_phrase(Kind.TRANSFER, self.policy.transfer_phrase, now)
            return
        self._drop_agent(now)
        self._failures = 0
        self._listen(now)

    def _drop_segment(self) -> None:
        if self._segment is not None:
            self._actions.append(ev.DropCapture(self._segment.id))
            self._segment = None
            self._timers.disarm(Timer.SEGMENT, Timer.BARGE)

    def _do(self, then: Deed, now: int) -> None:
        if then.hang_up:
            self._say_phrase(Kind.GOODBYE, self.policy.goodbye, now)
            return
        self._say_phrase(Kind.TRANSFER, self.policy.transfer_phrase, now, then)

    def _transfer(self, now: int, then: Deed | None) -> None:
        """From here on the caller is the human's: what is said is not for us."""
        self._drop_segment()
        self._listen(now)
        self._timers.disarm(Timer.IDLE)
        self.transferring = True
        self.state = State.THINKING
        self._asked = then is not None
        self._actions.append(ev.Transfer(self.policy.transfer if then is None else then.target))

    def _transferred(self, event: ev.Transferred, now: int) -> None:
        self.transferring = False
        if event.done:
            self._end(now, hangup="transferred")
        elif self._asked:  # by the model, which still works
            self._failed(now)
        else:
            self._say_phrase(Kind.GOODBYE, self.policy.goodbye, now)
