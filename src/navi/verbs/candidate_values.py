"""Candidates for empty cells: the values of a column, and how likely each is beside a row's other cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.verbs.cell_formats import fits_format, learn_cell_format

# Shape suffixes: M empty cells of a column, N values of it, C cells of it, P pairs of such a cell and another of its
# row, B distinct other cells.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TRAINING_CELLS = 5.0
"""How many of a column's cells the values of training tables count for."""
UNSEEN_CELLS = 1.0
"""How many cells values that the column does not have yet count for: two cells that agree do not make it constant."""
PRIOR_CELLS = np.geomspace(300, 0.1, 9)
"""How many cells the column's own shares may count for beside those that stand beside another cell."""
LEAST_EXCESS = 0.3
"""Whole groups are missing if so many more gaps than known cells, in shares, have no row that is the same in one."""
OPTIMISM = 0.43
"""What is taken from the log-odds of a value: the most telling of many cells was chosen. Fitted once to gaps of many
open tables (benchmarks/imputation.py --fit)."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Cells whose value is asked for; whatever a row holds there is out of sight."""

    row: Ints
    """(M,) row of each cell."""
    column: Ints
    """(M,) column of each cell."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values that a column may take: its own, and those that its attribute had in training."""

    texts: tuple[str, ...]
    """(N,) the commonest spelling of each value; texts that differ in case alone are one value."""
    own: NDArray[np.bool_]
    """(N,) whether some cell of the column holds the value."""
    share: Floats
    """(N,) how likely each value is before a row is looked at."""
    row: Ints
    """(C,) row of each cell of the column."""
    cell_value: Ints
    """(C,) place here of its value."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The likeliest value for each of M empty cells of one column, by the one other cell of its row that says most."""

    gaps: Ints
    """(M,) which of the gaps asked for these are."""
    values: ColumnValues
    """All values of the column."""
    best: Ints
    """(M,) the likeliest value."""
    probability: Floats
    """(M,) how likely it is."""
    header: Ints
    """(M,) header of the other cell; -1 where none was met in a row whose value is known."""
    beside: Ints
    """(M,) how many such rows have that cell too."""
    agree: Ints
    """(M,) how many of them have the value."""
    example: Ints
    """(M,) the first of these; -1 for none."""


class CandidateFinder:
    """Finds candidates for empty cells, from the rows that may serve as evidence and from what training knew.

    Cells that are asked for, and those `hidden` beside them, are out of sight.
    """

    def __init__(
        self, encoded: Encoded, trained: pa.Table | None = None, rows: Ints | None = None, hidden: Gaps | None = None
    ) -> None:
        arrays = encoded.arrays
        self._encoded, self._arrays, self._trained = encoded, arrays, trained
        _, cells = gather_ranges(arrays.row_offsets, np.arange(arrays.num_rows) if rows is None else np.sort(rows))
        if hidden is not None:
            key = arrays.cell_row * arrays.num_columns + arrays.cell_column
            cells = cells[~np.isin(key[cells], hidden.row * arrays.num_columns + hidden.column)]
        self._cells = cells[np.argsort(arrays.cell_column[cells], kind="stable")]
        self._starts = np.searchsorted(arrays.cell_column[self._cells], np.arange(arrays.num_columns + 1))

    def find(self, gaps: Gaps) -> Iterator[Candidates]:
        """Yield the candidates of the gaps, column after column; none for a column of unknown values."""
        for column in np.unique(gaps.column).tolist():
            values = self._gather_values(column)
            if values.texts:
                inside = np.flatnonzero(gaps.column == column)
                yield from self._judge(inside, gaps.row[inside], int(self._arrays.column_header[column]), values)

    def _gather_values(self, column: int) -> ColumnValues:
        cells = self._cells[self._starts[column] : self._starts[column + 1]]
        value_C = self._arrays.segment_value[self._arrays.row_segments[cells]]
        ids, code_C, counts = np.unique(value_C, return_inverse=True, return_counts=True)
        texts = self._encoded.values.take(pa.array(ids)).cast(pa.string())
        listed = pa.table({"text": texts, "count": counts, "trained": np.zeros(len(ids), np.int64)})
        if self._trained is not None:
            listed = pa.concat_tables([listed, self._list_trained(self._trained, column, texts, code_C)])
        listed = listed.append_column("key", fold_texts(listed["text"])).sort_by(
            [("count", "descending"), ("trained", "descending"), ("text", "ascending")]
        )
        # Without threads the first text of a group is its commonest.
        found = listed.group_by("key", use_threads=False).aggregate(
            [("text", "first"), ("count", "sum"), ("trained", "sum")]
        )
        found = found.sort_by("key").combine_chunks()
        count_N, trained_N = found["count_sum"].to_numpy(), found["trained_sum"].to_numpy()
        weight_N = count_N + TRAINING_CELLS / max(1, trained_N.sum()) * trained_N
        return ColumnValues(
            texts=tuple(found["text_first"].to_pylist()),
            own=count_N > 0,
            share=weight_N / (float(weight_N.sum()) + UNSEEN_CELLS),
            row=self._arrays.cell_row[cells],
            cell_value=np.asarray(pc.index_in(fold_texts(texts), value_set=found["key"]), np.int64)[code_C],
        )

    def _list_trained(self, trained: pa.Table, column: int, texts: pa.Array, code_C: Ints) -> pa.Table:
        """Return text and count of the attribute's values in training that the column could hold as they are."""
        attribute = self._encoded.attributes[int(self._arrays.column_attribute[column])].as_py()
        values = trained.filter(pc.equal(trained["attribute"], attribute))
        counts = dict(zip(texts.to_pylist(), np.bincount(code_C).tolist(), strict=True)) if len(values) else {}
        listed = pa.table({"text": values["value"].cast(pa.string()), "trained": values["count"].cast(pa.int64())})
        listed = listed.filter(pa.array(fits_format(listed["text"], learn_cell_format(counts))))
        return listed.add_column(1, "count", pa.array(np.zeros(len(listed), np.int64)))

    def _judge(self, gaps: Ints, rows: Ints, header: int, values: ColumnValues) -> Iterator[Candidates]:
        """Yield the candidates of the gaps of a column: of those in groups that lack its values, and of the others."""
        cell, segment = self._list_others(values.row, header)
        gap, other = self._list_others(rows, header)
        whole = find_group_header(segment, other, self._arrays.segment_header)
        is_known = np.zeros(len(rows), np.bool_)
        is_known[gap[np.isin(other, segment) & (self._arrays.segment_header[other] == whole)]] = True
        for is_meant, group in ((is_known, cell), (~is_known, group_cells(cell, segment, whole, self._arrays))):
            if is_meant.any():
                place = np.cumsum(is_meant) - 1
                others = place[gap[is_meant[gap]]], other[is_meant[gap]]
                yield self._choose(gaps[is_meant], (cell, segment, group), others, values)

    def _choose(
        self, gaps: Ints, known: tuple[Ints, Ints, Ints], others: tuple[Ints, Ints], values: ColumnValues
    ) -> Candidates:
        """Return the likeliest value of each gap beside the other cell by which its likeliest value is likeliest."""
        (cell, segment, group), (gap, other) = known, others
        segments, place = np.unique(segment, return_inverse=True)
        headers = self._arrays.segment_header[segments].astype(np.int64)
        prior = np.append(fit_priors(place, values.cell_value[cell], group, headers, values.share), 1.0)
        # Beside each cell, and in the last place beside none, the column's commonest value may be the likeliest.
        num_values, common = len(values.texts), int(values.share.argmax())
        pairs = np.append(place * num_values + values.cell_value[cell], np.arange(len(prior)) * num_values + common)
        pairs, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        count = np.bincount(inverse[: len(place)], minlength=len(pairs))
        owner, value = np.divmod(pairs, num_values)
        total = np.bincount(owner, count)
        share = (count + prior[owner] * values.share[value]) / (total + prior)[owner]
        order = np.lexsort((-value, share, owner))
        likeliest = order[np.searchsorted(owner, np.arange(len(prior)), side="right") - 1]
        met = np.isin(other, segments)
        gap, other = gap[met], np.searchsorted(segments, other[met])
        order = np.lexsort((-value[likeliest[other]], share[likeliest[other]]))
        beside = np.full(len(gaps), len(segments))
        beside[gap[order]] = other[order]
        chosen = likeliest[beside]
        return Candidates(
            gaps=gaps,
            values=values,
            best=value[chosen],
            probability=1 / (1 + np.exp(OPTIMISM) * (1 / share[chosen] - 1)),
            header=np.append(headers, -1)[beside],
            beside=total[beside].astype(np.int64),
            agree=count[chosen],
            example=np.append(values.row[cell], np.full(len(prior), -1))[first[chosen]],
        )

    def _list_others(self, rows: Ints, header: int) -> tuple[Ints, Ints]:
        """Return the cells of rows but those of one header: place of the row in `rows`, and segment."""
        lengths, cells = gather_ranges(self._arrays.row_offsets, rows)
        segment = self._arrays.row_segments[cells].astype(np.int64)
        others = self._arrays.segment_header[segment] != header
        return np.repeat(np.arange(len(rows)), lengths)[others], segment[others]


def find_group_header(segment: Ints, missing: Ints, header_of: NDArray[np.int32]) -> int:
    """Return the header of which whole groups of rows lack their values, as of a maker or an entity; -1 for none.

    It is one where gaps mostly have no row that is the same there and whose value is known, though known rows mostly
    have one. `segment` are the other cells of known rows, `missing` those of the gaps.
    """
    known, counts = np.unique(segment, return_counts=True)
    size = int(header_of.max(initial=0)) + 1

    def share_alone(headers: NDArray[np.int32], alone: NDArray[np.bool_]) -> Floats:
        return np.bincount(headers, alone, size) / np.maximum(np.bincount(headers, minlength=size), 1)

    excess = share_alone(header_of[missing], ~np.isin(missing, known))
    excess -= share_alone(header_of[segment], counts[np.searchsorted(known, segment)] == 1)
    return int(excess.argmax()) if excess.max() > LEAST_EXCESS else -1


def group_cells(cell: Ints, segment: Ints, header: int, arrays: SegmentArrays) -> Ints:
    """Return what a known value is left out together with, to see what it would be guessed as, for each pair: (P,).

    These are the rows that are the same under the header; where there is none, each cell is its own group.
    """
    group = np.arange(int(cell.max(initial=-1)) + 1)
    same = arrays.segment_header[segment] == header
    group[cell[same]] = len(group) + segment[same]
    return group[cell]


def fit_priors(place: Ints, value: Ints, group: Ints, headers: Ints, share: Floats) -> Floats:
    """Return for each cell that stood beside a column's how many of these the column's own shares count for, (B,).

    It is the same for all cells of a header: the number by which the values beside them are likeliest, each group of
    rows left out in turn. It is small if equal cells have equal values, and large if one says nothing of the other.
    `place`, `value` and `group` are those of each pair of cells.
    """
    groups = np.unique(group, return_inverse=True)[1]
    size = (int(groups.max(initial=0)) + 1, len(share))
    triple, count = np.unique((place * size[0] + groups) * size[1] + value, return_counts=True)
    of_group, of_value = np.divmod(triple, size[1])
    at = of_group // size[0]
    alike = _sum_within(at * size[1] + of_value, count) - count
    others = _sum_within(at, count) - _sum_within(of_group, count)
    names, owner = np.unique(headers, return_inverse=True)
    fits = []
    for prior in PRIOR_CELLS:
        likelihood = count * np.log((alike + prior * share[of_value]) / (others + prior))
        # One pair of rows that differ is added: from two that agree by chance nothing follows.
        fits.append(np.bincount(owner[at], likelihood, len(names)) + np.log(prior / (1 + prior)))
    priors: Floats = PRIOR_CELLS[np.argmax(fits, axis=0)][owner]
    return priors


def _sum_within(key: Ints, count: Ints) -> Ints:
    """Return for each entry the sum of the counts of all entries with its key."""
    place = np.unique(key, return_inverse=True)[1]
    sums: Ints = np.bincount(place, count).astype(np.int64)
    return sums[place]


def fold_texts(texts: pa.Array) -> pa.Array:
    """Return what makes texts one value: all but their case."""
    return pc.utf8_lower(texts)
