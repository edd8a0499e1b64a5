"""What a column holds and may hold: its values, its format, its spelling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from navi.corpus import Encoded
from navi.corpus.tokens import TextTokenizer
from navi.training import Domain
from navi.verbs.guessing.formats import ColumnFormat, TextFormat, learn_format
from navi.verbs.guessing.gaps import ColumnCells, Ints
from navi.verbs.guessing.spelling import Spelling
from navi.verbs.guessing.valueset import ValueSet, gather_values

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT_CELLS = 500
"""Cells that format and spelling are learnt from."""


@dataclass(frozen=True)
class Column:
    """What is known of one column."""

    values: ValueSet
    """The values that it may take."""
    cells: Ints
    """(C,) number in the set of the value of each of its cells; -1 for one left out of the set."""
    format: ColumnFormat
    """What its cells look like."""
    texts: tuple[str, ...]
    """Some of its cells."""
    tokenizer: Tokenizer

    @cached_property
    def spelling(self) -> Spelling:
        """How its cells are spelled."""
        return Spelling(self.texts, self.tokenizer)

    def share_lengths(self) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.float64]]]:
        """Return the numbers of tokens that its cells have, most frequent first, and the share of cells with each."""
        values = self.values
        counts = np.bincount(values.lengths, weights=values.count) if values.num_cells else np.zeros(1)
        lengths = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
        return lengths.astype(np.int64), counts[lengths] / max(1.0, float(counts.sum()))


class ColumnValues:
    """Gathers columns from some rows of encoded tables and from what training knew of their attributes."""

    def __init__(
        self,
        encoded: Encoded,
        cells: ColumnCells,
        tokenizer: Tokenizer,
        domain: Domain | None,
        *,
        max_values: int,
        max_tokens: int,
    ) -> None:
        self._encoded, self._cells, self._tokenizer, self._domain = encoded, cells, tokenizer, domain
        self._max_values, self._max_tokens = max_values, max_tokens
        self._text_tokenizer = TextTokenizer(tokenizer)
        self._columns: dict[int, Column] = {}

    def __getitem__(self, column: int) -> Column:
        """Return a column by its number in the encoded tables."""
        if column not in self._columns:
            self._columns[column] = self._gather(column)
        return self._columns[column]

    def _gather(self, column: int) -> Column:
        arrays, encoded = self._encoded.arrays, self._encoded
        _, value_C = self._cells.of(column)
        ids, counts = np.unique(value_C, return_counts=True)
        texts = encoded.values.take(pa.array(ids)).to_pylist()
        bounds = zip(arrays.value_offsets[ids].tolist(), arrays.value_offsets[ids + 1].tolist(), strict=True)
        tokens = [tuple(arrays.value_tokens[begin:end].tolist()) for begin, end in bounds]
        sample = value_C[np.linspace(0, max(0, len(value_C) - 1), min(len(value_C), FORMAT_CELLS)).astype(np.int64)]
        cells = tuple(encoded.values.take(pa.array(sample)).to_pylist())
        form = learn_format(cells)
        own = zip(ids.tolist(), texts, tokens, counts.tolist(), strict=True)
        values = gather_values(own, self._list_known(int(arrays.column_attribute[column]), form), self._max_values)
        numbers = np.array([values.number.get(value, -1) for value in ids.tolist()], dtype=np.int64)
        return Column(values, numbers[np.searchsorted(ids, value_C)], form, cells, self._tokenizer)

    def _list_known(self, attribute: int, form: ColumnFormat) -> list[tuple[str, tuple[int, ...], int]]:
        """Return text, tokens and count of the attribute's values in training that fit the column's format."""
        if self._domain is None:
            return []
        values = self._domain.values
        found = values.filter(pc.equal(values["attribute"], self._encoded.attributes[attribute].as_py()))
        texts, counts = found["value"].to_pylist(), found["count"].to_pylist()
        if not isinstance(form, TextFormat):
            written = [(form.render(text), count) for text, count in zip(texts, counts, strict=True)]
            texts = [text for text, _ in written if text is not None]
            counts = [count for text, count in written if text is not None]
        if not texts:
            return []
        lists = self._text_tokenizer.tokenise(texts, self._max_tokens)
        starts, tokens = lists.offsets.tolist(), lists.tokens.tolist()
        spans = [tuple(tokens[begin:end]) for begin, end in pairwise(starts)]
        return list(zip(texts, spans, counts, strict=True))
