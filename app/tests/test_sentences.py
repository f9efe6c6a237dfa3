# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences are the same however the stream is cut, and come out as soon as they are certain."""

from __future__ import annotations

import random

import pytest

from voice_edge.sentences import SentenceSplitter, speakable

CASES = [
    (
        "Hello Mr. Smith. How are you? Fine!",
        ["Hello Mr. Smith.", "How are you?", "Fine!"],
    ),
    ("It costs 3.50 euros. Or 1,000.25?", ["It costs 3.50 euros.", "Or 1,000.25?"]),
    ("See you at 5 p.m. Thanks.", ["See you at 5 p.m.", "Thanks."]),
    ("See you at 5 p.m. or so.", ["See you at 5 p.m. or so."]),
    ("Apples, pears, etc. and more. End", ["Apples, pears, etc. and more.", "End"]),
    ("Use e.g. this one, i.e. that.", ["Use e.g. this one, i.e. that."]),
    ('Wait... what? "Really?" Yes. I do.', ["Wait... what?", '"Really?"', "Yes.", "I do."]),
    ("J. R. Tolkien wrote it. So did I. Next", ["J. R. Tolkien wrote it.", "So did I.", "Next"]),
    ("1. Take it. 2. Eat it.", ["1. Take it.", "2. Eat it."]),
    ("# Title\n- **Bold** one\n- `two`\n\n", ["Title", "Bold one", "two"]),
    ("Dr. Müller kommt am 3. juli, z. B. um 5. Danke", None),
    ("Version 2.0.1 of example.com is out. OK?!", ["Version 2.0.1 of example.com is out.", "OK?!"]),
    ("你好。再见！好", ["你好。", "再见！", "好"]),
    ("No end", ["No end"]),
    ("No. I take No. 5 then. No.", ["No.", "I take No. 5 then.", "No."]),
    ("", []),
    (" \n ... \n", []),
    ("Hm… maybe. Hm… Well.", ["Hm… maybe.", "Hm…", "Well."]),
    ("(Yes.) [No.] “Maybe.” So.", ["(Yes.)", "[No.]", "“Maybe.”", "So."]),
]


def split(text: str, sizes: list[int]) -> list[str]:
    splitter = SentenceSplitter()
    out: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        out += splitter.feed(text[at : at + size])
        at += size
    return out + splitter.flush()


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_sentences(text: str, expected: list[str] | None) -> None:
    whole = split(text, [10_000])
    if expected is not None:
        assert whole == expected
    for seed in range(20):
        sizes = [random.Random(seed).randint(1, 9) for _ in range(10)]
        assert split(text, sizes) == whole
    assert split(text, [1]) == whole


def test_a_sentence_comes_with_the_character_after_it() -> None:
    splitter = SentenceSplitter()
    assert splitter.feed("It is noon.") == []
    assert splitter.feed(" ") == ["It is noon."]
    assert splitter.feed("Ask Dr.") == []
    assert splitter.feed(" ") == []
    assert splitter.feed("Who? ") == ["Ask Dr. Who?"]
    assert splitter.flush() == []


def test_endless_text_is_cut_at_a_comma_or_a_space() -> None:
    splitter = SentenceSplitter(limit=40)
    out = splitter.feed("one two three four five six seven, eight nine ten eleven twelve")
    assert out == ["one two three four five six seven,"]
    out = splitter.feed(" thirteen fourteen fifteen")
    assert out == ["eight nine ten eleven twelve thirteen"]
    assert SentenceSplitter(limit=40).feed("x" * 100)[0] == "x" * 40


def test_markup_is_not_spoken() -> None:
    assert speakable("**Very** _good_, see `this`") == "Very good, see this"
    assert speakable("- item") == "item"
