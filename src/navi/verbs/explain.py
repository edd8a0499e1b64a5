"""Why two columns match or do not: what the scorer weighed, in words and with examples of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.columns import FEATURES, Background, ColumnProfiles, PairScorer, have_headers, measure_features
from navi.columns.headers import split_header
from navi.columns.profiles import FACTS
from navi.columns.quantities import KINDS
from navi.tables import Table
from navi.verbs.column_groups import Reason

# Shape suffixes: E features.

EVIDENCE = {
    "headers": ("header_words", "header_grams", "header_vector"),
    "shared values": ("contained", "shared", "frequent", "words"),
    "meaning": ("value_vector", "column_vector"),
    "numbers": ("numbers", "scale"),
    "form": ("kind", "grams", "shape", "length", "lists"),
    "variety": ("diversity",),
}
"""The features that make one statement together."""
LEAST, STRONG = 0.5, 2.0
"""Points of the score from which a statement is made, and from which it is called strong."""
NUM_EXAMPLES, MAX_CELLS, MAX_CHARACTERS = 2, 5000, 30
"""Values shown of a column, cells of it that are looked at, and characters of a value."""
MOST = 0.5
"""Share from which a column is called after a kind of cells, and features are called high."""
KIND_NAMES = {
    "number": "numbers",
    "money": "amounts of money",
    "percent": "percentages",
    "duration": "durations",
    "date": "dates",
    "measure": "measures",
}
_FACT = {name: place for place, name in enumerate(FACTS)}


class Explainer:
    """Says of pairs of profiled columns what spoke for and against them."""

    def __init__(self, scorer: PairScorer, profiles: ColumnProfiles, tables: Mapping[str, Table]) -> None:
        self._scorer, self._profiles, self._tables = scorer, profiles, tables
        self._background = Background([profiles])
        self._named = have_headers(profiles)
        self._list_values = cache(self._read_values)

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
        for name, features in EVIDENCE.items():
            if not (named if name == "headers" else filled):
                continue
            places = [FEATURES.index(feature) for feature in features]
            weight, high = self._weigh(features_E, places), bool(features_E[places].mean() >= MOST)
            text = self._word(name, first, second, weight > 0, high) if abs(weight) >= LEAST else ""
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

    def _list_gaps(self, first: int, second: int, named: bool, filled: bool) -> list[Reason]:
        gaps = []
        if not named:
            silent = self._profiles.headers[second if self._named[first] else first]
            gaps.append(Reason(speaks="against", text=f"the header '{silent}' says nothing"))
        if not filled:
            gaps.append(Reason(speaks="against", text="one of them has no values to compare"))
        return gaps

    def _word(self, name: str, first: int, second: int, speaks_for: bool, high: bool) -> str:
        """Return a statement in words; an empty one where what is to be seen would contradict it."""
        if name == "headers":
            return self._word_headers(first, second, speaks_for)
        if name == "shared values":
            return self._word_values(first, second, speaks_for)
        if name == "numbers":
            ranges = [self._show_range(k) for k in (first, second)]
            where = f"{ranges[0]} and {ranges[1]}"
            return f"the numbers lie {'in one range' if speaks_for else 'apart'}: {where}" if all(ranges) else ""
        shown = f"{self._show(first)} and {self._show(second)}"
        kinds = [self._name_kind(k) for k in (first, second)]
        if name == "form" and kinds[0] != kinds[1]:
            return "" if speaks_for else f"one holds {kinds[0]}, the other {kinds[1]}: {shown}"
        texts = {
            "meaning": ("the values read alike", "the values read differently"),
            "form": (f"both hold {kinds[0]}, written alike", f"both hold {kinds[0]}, but written differently"),
            "variety": ("values repeat equally often in both", "values repeat more often in one"),
        }
        return f"{texts[name][0 if speaks_for else 1]}: {shown}" if speaks_for == high else ""

    def _word_headers(self, first: int, second: int, speaks_for: bool) -> str:
        headers = [self._profiles.headers[k] for k in (first, second)]
        words = [split_header(header) for header in headers]
        common = ", ".join(f"'{word}'" for word in words[0] if word in words[1])
        if words[0] == words[1]:
            return "the headers are the same" if speaks_for else ""
        if common:
            return f"the headers share {common}" if speaks_for else f"the headers share no more than {common}"
        return f"the headers are {'' if speaks_for else 'not '}alike: '{headers[0]}' and '{headers[1]}'"

    def _word_values(self, first: int, second: int, speaks_for: bool) -> str:
        ours, theirs = (self._list_values(k) for k in (first, second))
        common = [value for value in ours if value in set(theirs)]
        listed = ", ".join(map(_shorten, common[:NUM_EXAMPLES]))
        if speaks_for:
            return f"values are in both: {listed}" if common else ""
        if len(common) >= MOST * min(len(ours), len(theirs)):
            return f"what they share says little: {listed}"
        few = "hardly any value is" if common else "no value is"
        return f"{few} in both: {self._show(first)} and {self._show(second)}"

    def _name_kind(self, column: int) -> str:
        facts = self._profiles.facts[column]
        shares = {kind: float(facts[_FACT[kind]]) for kind in KINDS}
        kind = max(shares, key=shares.__getitem__)
        return KIND_NAMES[kind] if shares[kind] >= MOST else "words"

    def _show_range(self, column: int) -> str:
        low, high = self._profiles.quantiles[column][[0, -1]].tolist()
        return "" if np.isnan(low) else f"{low:.6g} to {high:.6g}"

    def _show(self, column: int) -> str:
        return ", ".join(map(_shorten, self._list_values(column)[:NUM_EXAMPLES]))

    def _read_values(self, column: int) -> list[str]:
        """Return the different values of a column, the most frequent first, folded to compare them."""
        table = self._tables[self._profiles.tables[column]]
        cells = table.text[self._profiles.headers[column]].drop_null().slice(0, MAX_CELLS)
        counts = pc.value_counts(pc.utf8_lower(pc.utf8_trim_whitespace(cells))).to_pylist()
        return [each["values"] for each in sorted(counts, key=lambda each: -each["counts"]) if each["values"]]


def _shorten(value: str) -> str:
    return f"'{value}'" if len(value) <= MAX_CHARACTERS else f"'{value[: MAX_CHARACTERS - 1]}…'"
