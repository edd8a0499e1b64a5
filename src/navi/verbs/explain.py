"""Why two columns match or do not: what the scorer weighed, in words and with examples of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.columns import FEATURES, Background, ColumnProfiles, PairScorer, have_headers, measure_features
from navi.columns.headers import split_header
from navi.columns.profiles import FACTS
from navi.tables import Table
from navi.verbs.cell_formats import learn_cell_format, read_cells
from navi.verbs.column_groups import Reason

# Shape suffixes: E features.

STATEMENTS = {
    ("header_words", "header_grams", "header_vector"): ("the headers are alike", "the headers are not alike"),
    ("contained", "shared", "frequent", "words"): ("values are in both", "hardly any value is in both"),
    ("value_vector", "column_vector"): ("the values read alike", "the values read differently"),
    ("numbers", "scale"): ("the numbers lie in one range", "the numbers lie apart"),
    ("kind", "grams", "shape", "length", "lists"): ("values are written alike", "values are written differently"),
}
"""What is said where features speak for two columns together, and where they speak against them."""
REWRITTEN = "the same values are spelled differently"
"""What is said where no text is in both, and the same numbers, dates, yes or no are."""
HEADERS, VALUES, _, NUMBERS, _ = STATEMENTS
LEAST, STRONG = 0.5, 2.0
"""Points of the score from which a statement is made, and from which it is called strong."""
NUM_EXAMPLES, MAX_CELLS, MAX_CHARACTERS = 2, 5000, 30
"""Values shown of a column, cells of it that are looked at, and characters of a value."""
HIGH = 0.5
"""Mean from which features are called high: low ones say nothing for a pair in words, and high ones nothing against it,
however the scorer weighs them."""


class Explainer:
    """Says of pairs of profiled columns what spoke for and against them."""

    def __init__(self, scorer: PairScorer, profiles: ColumnProfiles, tables: Mapping[str, Table]) -> None:
        self._scorer, self._profiles, self._tables = scorer, profiles, tables
        self._background = Background([profiles])
        self._named = have_headers(profiles)
        self._list_values, self._list_meanings = cache(self._read_values), cache(self._read_meanings)

    def explain(self, first: int, second: int) -> tuple[Reason, ...]:
        """Return what spoke for and against two columns, what counts most first.

        A statement counts for as much as the score has from its features, compared with the mean of what it would have
        if they were at their least and at their most. Those of a header that says nothing and of values that are not
        there are left out, and that is said.
        """
        ours, theirs = (self._profiles.take(np.array([k])) for k in (first, second))
        features_E = measure_features(ours, theirs, self._background)[:, 0, 0]
        filled = bool(ours.cells[0] and theirs.cells[0])
        named = bool(self._named[first] and self._named[second])
        found = []
        for features, texts in STATEMENTS.items():
            places = [FEATURES.index(feature) for feature in features]
            weight, high = self._weigh(features_E, places), bool(features_E[places].mean() >= HIGH)
            if abs(weight) < LEAST or not (named if features == HEADERS else filled):
                continue
            text = texts[weight < 0]
            if features == HEADERS:
                text = self._word_headers(first, second, weight > 0, text)
            elif features == VALUES:
                text = self._word_values(first, second, weight > 0, text)
            elif high == (weight > 0) and (features != NUMBERS or self._have_numbers(first, second)):
                text = f"{text}: {self._show(first)} and {self._show(second)}"
            else:
                continue
            if text:
                strongly = " (strong)" if abs(weight) >= STRONG else ""
                found.append((weight, Reason(speaks="for" if weight > 0 else "against", text=text + strongly)))
        found.sort(key=lambda each: -abs(each[0]))
        return (*(reason for _, reason in found), *self._list_gaps(first, second, named, filled))

    def _weigh(self, features_E: NDArray[np.float32], places: Sequence[int]) -> float:
        cases = np.stack([features_E] * 3, axis=1)
        cases[places, 1], cases[places, 2] = 0.0, 1.0
        found, least, most = self._scorer.weigh(cases).tolist()
        return float(found - (least + most) / 2)

    def _have_numbers(self, first: int, second: int) -> bool:
        share = self._profiles.facts[[first, second], FACTS.index("quantities")]
        return bool((share >= HIGH).all())

    def _list_gaps(self, first: int, second: int, named: bool, filled: bool) -> list[Reason]:
        gaps = []
        if not named:
            silent = self._profiles.headers[second if self._named[first] else first]
            gaps.append(Reason(speaks="against", text=f"the header '{silent}' says nothing"))
        if not filled:
            gaps.append(Reason(speaks="against", text="one of them has no values to compare"))
        return gaps

    def _word_headers(self, first: int, second: int, speaks_for: bool, text: str) -> str:
        """Return what to say of headers; nothing where what is to be seen would contradict it."""
        headers = [self._profiles.headers[k] for k in (first, second)]
        if split_header(headers[0]) == split_header(headers[1]):
            return "the headers are the same" if speaks_for else ""
        return f"{text}: '{headers[0]}' and '{headers[1]}'"

    def _word_values(self, first: int, second: int, speaks_for: bool, text: str) -> str:
        """Return what to say of shared values; nothing where what is to be seen would contradict it."""
        ours, theirs = (self._list_values(k) for k in (first, second))
        known = set(theirs)
        common = [value for value in ours if value in known]
        if speaks_for:
            return f"{text}: {', '.join(map(_shorten, common[:NUM_EXAMPLES]))}" if common else ""
        if len(common) >= HIGH * min(len(ours), len(theirs)):
            return ""
        one, other = (self._list_meanings(k) for k in (first, second))
        text = REWRITTEN if len(one & other) >= HIGH * min(len(one), len(other)) else text
        return f"{text}: {self._show(first)} and {self._show(second)}"

    def _show(self, column: int) -> str:
        return ", ".join(map(_shorten, self._list_values(column)[:NUM_EXAMPLES]))

    def _read_values(self, column: int) -> list[str]:
        """Return the different values of a column, the most frequent first, folded to compare them."""
        table = self._tables[self._profiles.tables[column]]
        cells = table.text[self._profiles.headers[column]].drop_null().slice(0, MAX_CELLS)
        counts = pc.value_counts(pc.utf8_lower(pc.utf8_trim_whitespace(cells))).to_pylist()
        return [each["values"] for each in sorted(counts, key=lambda each: -each["counts"]) if each["values"]]

    def _read_meanings(self, column: int) -> frozenset[Any]:
        """Return the different values of a column as the numbers, dates, yes or no that they are, else as texts."""
        values = self._list_values(column)
        read = read_cells(
            pa.chunked_array([pa.array(values, pa.string())]), learn_cell_format(dict.fromkeys(values, 1))
        )
        return frozenset(
            text if value is None else value for text, value in zip(values, read.values.to_pylist(), strict=True)
        )


def _shorten(value: str) -> str:
    return f"'{value}'" if len(value) <= MAX_CHARACTERS else f"'{value[: MAX_CHARACTERS - 1]}…'"
