# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of the stand-in language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voice_edge_standins.script import Reply, ScriptError, load, parse

DEFAULT = {"reply": "What?"}


def rules(*table: dict[str, Any]) -> dict[str, Any]:
    return {"rule": list(table), "default": DEFAULT}


def test_the_first_rule_that_fits_answers() -> None:
    script = parse(
        rules(
            {"any": ["opening hours", "open"], "all": ["sunday"], "reply": "Closed."},
            {"any": ["opening hours", "open"], "reply": "Nine to five."},
        )
    )
    assert script.reply("Are you OPEN on Sunday?").text == "Closed."
    assert script.reply("What are your opening, hours?").text == "Nine to five."
    assert script.reply("Are you there?").text == "What?"


@pytest.mark.parametrize(
    ("said", "fits"), [("reopened", False), ("hours opening", False), ("It’s it's open.", True)]
)
def test_whole_words_in_order_count(said: str, fits: bool) -> None:
    script = parse(rules({"any": ["open", "opening hours"], "reply": "yes"}))
    assert (script.reply(said).text == "yes") is fits


def test_speed_is_the_rules_or_the_models() -> None:
    script = parse(
        {
            "model": {"first_token_s": 0.5, "tokens_per_s": 10},
            **rules({"any": ["slow"], "reply": "s", "first_token_s": 2}),
        }
    )
    assert script.reply("slow") == Reply("s", 2.0, 10.0)
    assert script.reply("?") == Reply("What?", 0.5, 10.0)


def test_the_last_words_can_be_said_back() -> None:
    script = parse({"default": {"reply": "You said: {last}"}})
    assert script.reply(" Hello. ").text == "You said: Hello."


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({}, r"\[default\]: reply"),
        ({"default": {"reply": " "}}, r"\[default\]: reply"),
        ({"rule": {}, "default": DEFAULT}, "array of tables"),
        (rules({"reply": "x"}), "number 1: give at least one"),
        (rules({"any": "open", "reply": "x"}), "number 1: any"),
        (rules({"any": ["!"], "reply": "x"}), "without a word"),
        (rules({"any": ["a"]}), "number 1: reply"),
        ({"model": {"tokens_per_s": -1}, "default": DEFAULT}, r"\[model\]: tokens_per_s"),
        ({"model": 3, "default": DEFAULT}, r"\[model\]"),
    ],
)
def test_a_mistake_names_its_place(table: dict[str, Any], place: str) -> None:
    with pytest.raises(ScriptError, match=place):
        parse(table, "my.toml")


def test_files(tmp_path: Path) -> None:
    assert load(None).reply("goodbye").text
    with pytest.raises(ScriptError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[rule")
    with pytest.raises(ScriptError, match="not valid TOML"):
        load(broken)
