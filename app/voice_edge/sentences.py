# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting a language model's text stream into sentences for synthesis, as they complete."""

from __future__ import annotations

import re

_WIDE_ENDS = "。！？"
_ENDS = ".!?…" + _WIDE_ENDS
_CLOSERS = "\"'”’»)]"
# After these a full stop does not end a sentence. Titles and the Latin ones; lower case, no dots.
_ABBREVIATIONS = frozenset(
    re.split(
        " ",
        "mr mrs ms dr prof sr jr st mt nr vs etc approx dept est fig inc ltd co corp gen col lt "
        "sgt capt rev hon ave blvd rd e.g i.e a.m p.m u.s u.k z.b d.h bzw ca usw hr fr str tel mme "
        "mlle av",
    )
)
# Those that often do end one: a capital after them decides.
_MAY_END = frozenset({"etc", "a.m", "p.m", "u.s", "u.k", "usw", "inc", "ltd", "co", "corp", "str"})
_MARKUP = re.compile(r"[*_`#~|]+")
_BULLET = re.compile(r"^\s*[-•+]\s+")


def speakable(text: str) -> str:
    """The text without Markdown marks, which a voice would read out or stumble over."""
    return " ".join(_MARKUP.sub("", _BULLET.sub("", text)).split())


class SentenceSplitter:
    """``feed`` pieces of any size, get whole sentences; ``flush`` gives the last fragment.

    A sentence is only certain once the character after its end is known, so the last one of a
    stream always comes from ``flush``. Text longer than ``limit`` characters without an end is cut
    at a comma or a space, so that a model that never stops still speaks.
    """

    def __init__(self, limit: int = 240) -> None:
        self._limit = limit
        self._text = ""
        self._from = 0  # all ends before here were looked at

    def feed(self, piece: str) -> list[str]:
        self._text += piece
        out: list[str] = []
        while (end := self._end()) is not None:
            self._take(end, out)
        while len(self._text) > self._limit:
            self._take(self._soft_end(), out)
        return out

    def flush(self) -> list[str]:
        out: list[str] = []
        self._take(len(self._text), out)
        return out

    def _take(self, end: int, out: list[str]) -> None:
        sentence = speakable(self._text[:end])
        self._text = self._text[end:].lstrip()
        self._from = 0
        if any(c.isalnum() for c in sentence):
            out.append(sentence)
        elif sentence and out:
            out[-1] += sentence

    def _end(self) -> int | None:
        """Where the first complete sentence ends, if there is one."""
        text = self._text
        end = self._from
        while (at := end) < len(text):
            char = text[at]
            end = at + 1
            if char == "\n" and text[:at].strip():
                return end
            if char not in _ENDS:
                continue
            while end < len(text) and text[end] in _ENDS + _CLOSERS:
                end += 1
            if char in _WIDE_ENDS:
                return end
            # The next word's first letter may decide: wait for it.
            rest = text[end:]
            following = rest.lstrip(" \t")
            if not rest or (not following and self._doubtful(at, end)):
                self._from = at
                return None
            if not rest[0].isspace():
                continue
            if self._ends_here(at, end, following):
                return end
        self._from = max(self._from, len(text))
        return None

    def _word(self, at: int) -> str:
        """The word before the mark at ``at``, lower case, without leading punctuation."""
        start = at
        while start > 0 and not self._text[start - 1].isspace():
            start -= 1
        return self._text[start:at].lstrip("\"'“‘«([").lower()

    def _doubtful(self, at: int, end: int) -> bool:
        if self._text[at] == "…" or self._text[at:end].startswith(".."):
            return True
        word = self._word(at)
        return self._text[at] == "." and (
            word in _ABBREVIATIONS or word == "no" or len(word) == 1 or word.isdigit()
        )

    def _ends_here(self, at: int, end: int, following: str) -> bool:
        if self._text[at] in "!?":
            return True
        lower_next = bool(following) and following[0].islower()
        if self._text[at] == "…" or self._text[at:end].startswith(".."):
            return not lower_next
        word = self._word(at)
        if word in _ABBREVIATIONS:
            return word in _MAY_END and bool(following) and following[0].isupper()
        if word == "no":  # "No. 5" is a number, "No. I am not" an answer
            return not following[:1].isdigit()
        if len(word) == 1 and word.isalpha():  # an initial, or the pronoun I
            return word == "i" and not lower_next
        if word.isdigit():  # "1. First": a list's number; "am 3. Mai": an ordinal
            return not lower_next and self._text[:at].strip().lower() != word
        return True

    def _soft_end(self) -> int:
        window = self._text[: self._limit]
        for marks in (",;:—–", " "):
            at = max(window.rfind(m) for m in marks)
            if at > self._limit // 4:
                return at + 1
        return self._limit
