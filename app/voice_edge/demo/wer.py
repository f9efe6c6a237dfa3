# SPDX-License-Identifier: GPL-3.0-or-later
"""Word error rate: substitutions, deletions and insertions over the words that were said."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@dataclass(frozen=True)
class WordErrors:
    """``errors`` (edit distance in words) against ``words`` that were said."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        """0.0 is perfect; over 1.0 with many words too much. 0 words said: 0 or 1."""
        return self.errors / self.words if self.words else float(bool(self.errors))

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.errors + other.errors, self.words + other.words)


def words(text: str) -> list[str]:
    """Words without case and punctuation."""
    return _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def word_errors(said: str, recognised: str) -> WordErrors:
    """Compare two texts (Levenshtein distance over words)."""
    wanted, got = words(said), words(recognised)
    row = list(range(len(got) + 1))
    for index, word in enumerate(wanted, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(got, 1):
            best = min(row[column] + 1, row[column - 1] + 1, diagonal + (word != other))
            diagonal, row[column] = row[column], best
    return WordErrors(row[-1], len(wanted))
