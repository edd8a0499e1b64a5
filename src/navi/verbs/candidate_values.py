"""Candidates for empty cells: the values that a column may take, and what speaks for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.training import Domain
from navi.verbs.value_formats import learn_format

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array
    from sklearn.feature_extraction.text import TfidfTransformer

# Shape suffixes: M empty cells of a column, N values of it, C cells of it, K candidates, E kinds of evidence, W words.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EVIDENCE = ("share of the column", "share of near rows", "nearness of near rows", "share beside the best other cell")
"""What speaks for a value; each is the logarithm of a share, and `nearness` that of how near the rows with it are."""
USUAL_WEIGHTS = np.array([0.2, 0.5, 0.3, 0.4])
"""What each kind of evidence weighs where nothing was fitted."""
MAX_CANDIDATES = 64
"""Values of a column that are weighed for a cell, at most: the likeliest by the usual weights."""
MAX_VALUES = 20_000
"""Values of a column that are looked at, at most; the rarest are left out."""
NEIGHBOURS = 10
"""Nearest rows that vote."""
SHARPNESS = 3.0
"""Power of a near row's cosine in the vote."""
TRAINING_CELLS = 5.0
"""How many of a column's cells the values of training tables count for."""
PRIOR_CELLS = 0.7
"""How many cells the column's own shares count for beside those that stand beside another cell."""
FLOOR = 0.01
"""Share of votes that every value has, so that one without any is not ruled out."""
FORMAT_CELLS = 200
"""Cells of a column that show how it writes numbers and dates, about."""
BLOCK_CELLS, BLOCK_VALUES = 256, 1_000_000
"""Cells, and values of all of them, that are looked at together, at most; it bounds the memory taken."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Cells whose value is asked for; whatever a row holds there is out of sight."""

    row: Ints
    """(M,) row of each cell."""
    column: Ints
    """(M,) column of each cell."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Ints) -> Gaps:
        """Return some of the gaps."""
        return Gaps(row=self.row[chosen], column=self.column[chosen])


@dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values that a column may take: its own, and those that its attribute had in training."""

    texts: tuple[str, ...]
    """(N,) the commonest spelling of each value; texts that differ in case alone are one value."""
    keys: pa.Array
    """(N,) the same, folded."""
    own: NDArray[np.bool_]
    """(N,) whether some cell of the column holds the value."""
    share: Floats
    """(N,) how likely each value is before a row is looked at."""
    unseen: float
    """Chance that a further cell holds a value of no other cell (Good and Turing's estimate)."""
    cell_value: Ints
    """(C,) place here of the value of each of the column's cells; -1 for a value left out."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The likeliest values for some empty cells of one column.

    **Shape**: M cells, K candidates each, E kinds of evidence.
    """

    gaps: Ints
    """(M,) which of the gaps asked for these are."""
    values: ColumnValues
    """All values of the column."""
    number: Ints
    """(M, K) the candidates among the values."""
    evidence: Floats
    """(M, K, E) what speaks for each."""


class CandidateFinder:
    """Finds candidates for empty cells, from the rows that may serve as evidence and from what training knew.

    The evidence rows must not hold what is asked for: rows whose cells are hidden to measure with are not among them.
    """

    def __init__(self, encoded: Encoded, domain: Domain | None = None, rows: Ints | None = None) -> None:
        arrays = encoded.arrays
        self._encoded, self._arrays, self._domain = encoded, arrays, domain
        self._rows = np.arange(arrays.num_rows) if rows is None else np.sort(rows)
        _, cells = gather_ranges(arrays.row_offsets, self._rows)
        cells = cells[np.argsort(arrays.cell_column[cells], kind="stable")]
        self._starts = np.searchsorted(arrays.cell_column[cells], np.arange(arrays.num_columns + 1))
        self._cell_row, self._cell_segment = arrays.cell_row[cells], arrays.row_segments[cells]
        self._num_words = int(arrays.value_tokens.max(initial=0)) + 1
        self._tables: dict[int, tuple[TfidfTransformer, csc_array, Ints]] = {}

    def find(self, gaps: Gaps) -> Iterator[Candidates]:
        """Yield the candidates of some gaps at a time, column after column; none for a column of unknown values."""
        for column in np.unique(gaps.column).tolist():
            values = self._gather_values(column)
            if not values.texts:
                continue
            inside = np.flatnonzero(gaps.column == column)
            near, beside = self._weigh_cells(column, values), self._count_beside(gaps.row[inside], column, values)
            size = max(1, min(BLOCK_CELLS, BLOCK_VALUES // len(values.texts)))
            for begin in range(0, len(inside), size):
                some = slice(begin, begin + size)
                votes_MN = self._count_votes(gaps.row[inside[some]], column, values, near)
                yield _choose(inside[some], values, votes_MN, beside[some].toarray())

    def _list_cells(self, column: int) -> tuple[Ints, NDArray[np.int32]]:
        """Return row and segment of each cell of a column in the evidence rows."""
        part = slice(self._starts[column], self._starts[column + 1])
        return self._cell_row[part], self._cell_segment[part]

    def _gather_values(self, column: int) -> ColumnValues:
        value_C = self._arrays.segment_value[self._list_cells(column)[1]]
        ids, code_C, counts = np.unique(value_C, return_inverse=True, return_counts=True)
        texts = self._encoded.values.take(pa.array(ids)).cast(pa.string())
        listed = pa.table({"text": texts, "count": counts, "trained": np.zeros(len(ids), np.int64)})
        if self._domain is not None:
            listed = pa.concat_tables([listed, self._list_trained(self._domain, column, texts, code_C)])
        listed = listed.append_column("key", fold_texts(listed["text"])).sort_by(
            [("count", "descending"), ("trained", "descending"), ("text", "ascending")]
        )
        # Without threads the first text of a group is its commonest.
        found = listed.group_by("key", use_threads=False).aggregate(
            [("text", "first"), ("count", "sum"), ("trained", "sum")]
        )
        order = [("count_sum", "descending"), ("trained_sum", "descending"), ("key", "ascending")]
        found = found.sort_by(order).slice(0, MAX_VALUES).combine_chunks()
        count_N, trained_N = found["count_sum"].to_numpy(), found["trained_sum"].to_numpy()
        weight_N = count_N + TRAINING_CELLS / max(1, trained_N.sum()) * trained_N
        return ColumnValues(
            texts=tuple(found["text_first"].to_pylist()),
            keys=found["key"],
            own=count_N > 0,
            share=weight_N / max(float(weight_N.sum()), 1e-9),
            unseen=(float((count_N == 1).sum()) + 0.5) / (float(count_N.sum()) + 1.0),
            cell_value=find_texts(texts, found["key"])[code_C],
        )

    def _list_trained(self, domain: Domain, column: int, texts: pa.Array, code_C: Ints) -> pa.Table:
        """Return text and count of the attribute's values in training, written as the column's cells are."""
        attribute = self._encoded.attributes[int(self._arrays.column_attribute[column])].as_py()
        values = domain.values.filter(pc.equal(domain.values["attribute"], attribute))
        sample = code_C[:: max(1, len(code_C) // FORMAT_CELLS)] if len(values) else code_C[:0]
        form = learn_format(texts.take(pa.array(sample)).to_pylist())
        written = [text if form is None else form.render(text) for text in values["value"].to_pylist()]
        counts = values["count"].cast(pa.int64())
        nothing = np.zeros(len(values), np.int64)
        return pa.table({"text": pa.array(written, pa.string()), "count": nothing, "trained": counts}).drop_null()

    def _weigh_cells(self, column: int, values: ColumnValues) -> csc_array:
        """Return the TF-IDF weights of the evidence rows that have a known value in a column: (W, C)."""
        _, weights_WR, rows = self._weigh_table(int(self._arrays.column_table[column]))
        return weights_WR[:, np.searchsorted(rows, self._list_cells(column)[0][values.cell_value >= 0])]

    def _count_votes(self, rows: Ints, column: int, values: ColumnValues, near_WC: csc_array) -> Floats:
        """Return (M, N): how near the nearest rows with each value are, by the cosine of their TF-IDF weights."""
        votes_MN = np.zeros((len(rows), len(values.texts)))
        count = min(NEIGHBOURS, near_WC.shape[1])
        if count:
            transformer, *_ = self._weigh_table(int(self._arrays.column_table[column]))
            asked = transformer.transform(self._count_words(rows, int(self._arrays.column_header[column])))
            cosine_MC = (asked @ near_WC).toarray()
            nearest = np.argpartition(-cosine_MC, count - 1, axis=1)[:, :count]
            weight = np.take_along_axis(cosine_MC, nearest, axis=1) ** SHARPNESS
            value_C = values.cell_value[values.cell_value >= 0]
            np.add.at(votes_MN, (np.arange(len(rows))[:, None], value_C[nearest]), weight)
        return votes_MN

    def _weigh_table(self, table: int) -> tuple[TfidfTransformer, csc_array, Ints]:
        """Return how rows of a table are weighed, the weights of its evidence rows (W, R), and these rows."""
        from sklearn.feature_extraction.text import TfidfTransformer

        if table not in self._tables:
            rows = self._rows[self._arrays.row_table[self._rows] == table]
            transformer = TfidfTransformer(sublinear_tf=True)
            counted = self._count_words(rows)
            weights_WR = transformer.fit_transform(counted).T.tocsc() if len(rows) else counted.T.tocsc()
            self._tables[table] = transformer, weights_WR, rows
        return self._tables[table]

    def _count_words(self, rows: Ints, hidden_header: int = -1) -> csr_array:
        """Return how often each token and each whole cell occurs in each row, one header left out: (R, W)."""
        from scipy.sparse import csr_array

        arrays = self._arrays
        row, segment = self._list_others(rows, hidden_header)
        sizes, index = gather_ranges(arrays.value_offsets, arrays.segment_value[segment])
        word = np.concatenate([arrays.value_tokens[index].astype(np.int64), self._num_words + segment])
        where = np.concatenate([np.repeat(row, sizes), row])
        shape = (len(rows), self._num_words + arrays.num_segments)
        return csr_array((np.ones(len(word)), (where, word)), shape=shape)

    def _list_others(self, rows: Ints, header: int) -> tuple[Ints, Ints]:
        """Return the cells of rows but those of one header: place of the row in `rows`, and segment."""
        lengths, cells = gather_ranges(self._arrays.row_offsets, rows)
        segment = self._arrays.row_segments[cells].astype(np.int64)
        others = self._arrays.segment_header[segment] != header
        return np.repeat(np.arange(len(rows)), lengths)[others], segment[others]

    def _count_beside(self, rows: Ints, column: int, values: ColumnValues) -> csr_array:
        """Return (M, N): how often each value stood beside the one other cell of each row that says most of it.

        That is the cell beside which the likeliest value is likeliest, the column's own shares counted in.
        """
        from scipy.sparse import csr_array

        header = int(self._arrays.column_header[column])
        known = np.flatnonzero(values.cell_value >= 0)
        cell, segment = self._list_others(self._list_cells(column)[0][known], header)
        gap, beside = self._list_others(rows, header)
        segments, beside = np.unique(beside, return_inverse=True)
        met = np.isin(segment, segments)
        pairs = (np.searchsorted(segments, segment[met]), values.cell_value[known][cell[met]])
        counts = csr_array((np.ones(len(pairs[0])), pairs), shape=(len(segments), len(values.texts)))
        counts.sum_duplicates()
        total = counts.sum(axis=1)
        smoothed = csr_array(
            (counts.data + PRIOR_CELLS * values.share[counts.indices], counts.indices, counts.indptr), counts.shape
        )
        strength = smoothed.max(axis=1).toarray().reshape(-1) / (total + PRIOR_CELLS) if len(segments) else total
        useful = total[beside] > 0
        gap, beside = gap[useful], beside[useful]
        order = np.lexsort((-beside, strength[beside]))
        best = np.full(len(rows), -1)
        best[gap[order]] = beside[order]
        found = np.flatnonzero(best >= 0)
        chosen = csr_array((np.ones(len(found)), (found, best[found])), shape=(len(rows), len(segments)))
        return chosen @ counts


def fold_texts(texts: pa.Array) -> pa.Array:
    """Return what makes texts one value: all but their case."""
    return pc.utf8_lower(texts)


def find_texts(texts: pa.Array, keys: pa.Array) -> Ints:
    """Return the place of each text among folded ones; -1 where it is not among them."""
    places: Ints = np.asarray(pc.fill_null(pc.index_in(fold_texts(texts), value_set=keys), -1), np.int64)
    return places


def _choose(gaps: Ints, values: ColumnValues, votes_MN: Floats, beside_MN: Floats) -> Candidates:
    """Return the likeliest values by the usual weights, and the evidence for them."""
    votes = votes_MN / np.maximum(votes_MN.sum(axis=1, keepdims=True), FLOOR)
    beside = (beside_MN + PRIOR_CELLS * values.share) / (beside_MN.sum(axis=1, keepdims=True) + PRIOR_CELLS)
    shares = (np.broadcast_to(values.share, votes.shape), FLOOR + votes, FLOOR + votes_MN, beside)
    evidence_MNE = np.log(np.maximum(np.stack(shares, axis=2), 1e-9))
    count = min(MAX_CANDIDATES, len(values.texts))
    number = np.sort(np.argpartition(-(evidence_MNE @ USUAL_WEIGHTS), count - 1, axis=1)[:, :count], axis=1)
    evidence = np.take_along_axis(evidence_MNE, number[:, :, None], axis=1)
    return Candidates(gaps=gaps, values=values, number=number, evidence=evidence)
