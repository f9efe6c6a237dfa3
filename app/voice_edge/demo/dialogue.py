# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said in the demo: the caller's recordings and the replies of the scripted model.

The caller is a recorded human voice, the prompts of Debian's asterisk-core-sounds-en-wav (Allison
Smith, CC-BY-SA); the words below are those of that package's transcript.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """One thing the caller says.

    ``sound`` is the recording's name, ``text`` its words. ``keywords`` make the scripted model
    answer with ``reply``. ``interrupts``: the caller does not wait for the agent to finish.
    """

    sound: str
    text: str
    keywords: tuple[str, ...]
    reply: str
    interrupts: bool = False


LINES = (
    Line(
        "tt-somethingwrong",
        "Something is terribly wrong.",
        ("terribly wrong", "terribly", "wrong"),
        "Oh dear, I am sorry to hear that. What has happened?",
    ),
    Line(
        "tt-weasels",
        "Weasels have eaten our phone system.",
        ("weasels", "weasel", "phone system", "eaten"),
        "That happens more often than you might think. Please unplug every telephone in the"
        " building, and count the weasels. Then write down how many there are, open a window on"
        " the ground floor, and wait until the last one has left. After that, call us again, and"
        " we will send you a new cable.",
    ),
    Line(
        "tt-monkeysintro",
        "They have been carried away by monkeys.",
        ("monkeys", "monkey", "carried away"),
        "Monkeys as well? Then I will send an engineer at once. Can you still make calls?",
        interrupts=True,
    ),
    Line(
        "all-circuits-busy-now",
        "All circuits are busy now.",
        ("circuits", "circuit", "busy"),
        "I see. Then the engineer will bring a new telephone system. Please stay where you are.",
    ),
    Line(
        "queue-thankyou",
        "Thank you for your patience.",
        ("thank you", "patience"),
        "You are welcome. Goodbye, and good luck with the monkeys.",
    ),
)


def script() -> dict[str, Any]:
    """The scripted model's rules, as the stand-ins read them."""
    return {
        "model": {"first_token_s": 0.15, "tokens_per_s": 60.0},
        "rule": [{"any": list(line.keywords), "reply": line.reply} for line in LINES],
        "default": {"reply": "I am sorry, I did not understand that. Could you say it again?"},
    }
