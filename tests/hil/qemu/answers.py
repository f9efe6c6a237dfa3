# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer file that a box under test is given, and one with mistakes."""

from __future__ import annotations

from typing import Any

from voice_edge import toml_out

HOSTNAME = "box-under-test"
GREETING = "Hello. Who is calling?"
MEDIA_PRIORITY = 61  # not the default: what is in force came from the answers


def make(*, tester: str, address: str, models: str, key: str, patience: float) -> str:
    """For a box that calls come to from `tester`; `key` is the public SSH key of this run."""
    wait_s = min(60.0, 10.0 * patience)
    deadlines = {"first_byte_s": wait_s, "between_chunks_s": wait_s, "total_s": 2 * wait_s}
    tree: dict[str, Any] = {
        "system": {"hostname": HOSTNAME},
        "admin": {"ssh_keys": [key], "networks": [f"{tester}/32"]},
        "trunk": {"addresses": [f"{tester}/32"]},
        "sip": {"public_address": address, "max_calls": 4},
        "agent": {
            "system_prompt": "You are at the telephone help desk.",
            "greeting": GREETING,
            "idle_s": 120.0,
            "patience_s": 60.0,
            "answer_deadline_s": 2 * wait_s,
        },
        "llm": {"url": models, "model": "scripted", **deadlines},
        "tts": {"url": models, "model": "joe-us-piper", "voice": "joe", "rate": 22050, **deadlines},
        "stt": {"url": models, "model": "whisper-tiny.en", **deadlines},
        "realtime": {"priority": MEDIA_PRIORITY},
        "log": {"level": "debug"},
    }
    return toml_out.dumps(tree)


MISTAKEN_KEY = "trunk.adresses"


def mistaken(good: str) -> str:
    """The same with a misspelt key, and another name for the box that must not take effect."""
    text = good.replace("\naddresses = ", "\nadresses = ", 1)
    text = text.replace(HOSTNAME, "not-this-name")
    assert MISTAKEN_KEY.partition(".")[2] in text
    assert text != good
    return text
