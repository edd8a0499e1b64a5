"""What a column's cells look like, so that a value put among them looks the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from navi.verbs.guessing.dateformat import DateFormat, learn_dates
from navi.verbs.guessing.numberformat import NumberFormat, learn_numbers

SAMPLE = 500
"""Cells that a format is learnt from, at most."""


@dataclass(frozen=True)
class TextFormat:
    """Cells without a common form: every text fits."""

    def render(self, text: str) -> str | None:
        """Return the text, or None where there is none."""
        return text.strip() or None


ColumnFormat = NumberFormat | DateFormat | TextFormat


def learn_format(texts: Sequence[str]) -> ColumnFormat:
    """Return the format that nearly all of a column's cells follow: numbers, dates, or any text.

    >>> learn_format(["118 min", "95 min", "102 min"]).render("88")
    '88 min'
    """
    texts = texts if len(texts) <= SAMPLE else [texts[i * len(texts) // SAMPLE] for i in range(SAMPLE)]
    return learn_dates(texts) or learn_numbers(texts) or TextFormat()
