# SPDX-License-Identifier: GPL-3.0-or-later
"""Every conversation of app/tests/conversations, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from . import conversation

ALL = conversation.load()


@pytest.mark.parametrize("document", [d for _, d in ALL], ids=[name for name, _ in ALL])
def test_conversation(document: dict[str, Any]) -> None:
    conversation.play(document)


def test_names_are_taken_once() -> None:
    names = [name for name, _ in ALL]
    assert len(set(names)) == len(names)
    assert len(names) > 100


def test_what_must_hold_can_fail() -> None:
    caller = [{"hears": "end"}, {"says": "Hello"}, {"hears": "end"}]
    wrong: tuple[dict[str, Any], ...] = (
        {"kinds": ["greeting"]},
        {"said": []},
        {"asked": 2},
        {"last_question": "Who?"},
        {"silence_s": 0.1},
        {"hung_up": True},
    )
    for must in wrong:
        with pytest.raises(AssertionError, match=next(iter(must))):
            conversation.play({"caller": caller, "must": must})
