"""A chunk: some rows of one table as one long list of cells, stripped, the absent left out, headers told apart."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.readreport import MAX_CELL, Loss, ReadReport

MAX_CHARACTERS = 1 << 25
"""Characters, or bytes of columns, after which a chunk is full, however few its rows: it bounds the memory."""
_NUMBER = re.compile(r"[\s$€£%+-]*\d[\d\s.,:/%-]*")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_LONGEST_NAME = 100

# Shape suffixes: C cells, R rows, H headers.


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a table, flat: C cells, those absent left out, of R rows.

    The long form costs nothing for a sparse table with a thousand headers, and what the next stage does with it (find
    the distinct values, hash, count) is one vectorised call each.
    """

    headers: tuple[str, ...]
    """Distinct headers of this chunk, in order of first appearance."""
    cell_row: NDArray[np.int32]
    """(C,) row of each cell within the chunk, non-decreasing."""
    cell_header: NDArray[np.int32]
    """(C,) index into `headers`; within a row the cells stand in the row's own column order."""
    cell_value: pa.StringArray
    """(C,) text of each cell, stripped and never empty or null."""
    row_number: NDArray[np.int64]
    """(R,) place of each row in its source, from 1: the line of a text file, else the record."""

    @property
    def num_rows(self) -> int:
        """Number of rows, those without any cell not among them."""
        return len(self.row_number)

    @property
    def num_cells(self) -> int:
        """Number of cells that hold something."""
        return len(self.cell_row)

    def cut(self, num_rows: int) -> tuple[Chunk, Chunk]:
        """Return the first rows and the others, each with all headers of the chunk."""

        def take(begin: int, end: int) -> Chunk:
            cells = slice(*np.searchsorted(self.cell_row, [begin, end]))
            return Chunk(
                headers=self.headers,
                cell_row=self.cell_row[cells] - np.int32(begin),
                cell_header=self.cell_header[cells],
                cell_value=self.cell_value[cells],
                row_number=self.row_number[begin:end],
            )

        return take(0, num_rows), take(num_rows, self.num_rows)

    def select(self, wanted: frozenset[str]) -> Chunk:
        """Return the cells under these headers, and the rows that have any of them."""
        kept = [place for place, header in enumerate(self.headers) if header in wanted]
        place_H = np.full(len(self.headers), -1, dtype=np.int32)
        place_H[kept] = np.arange(len(kept), dtype=np.int32)
        cells = np.flatnonzero(place_H[self.cell_header] >= 0)
        rows, cell_row = np.unique(self.cell_row[cells], return_inverse=True)
        return Chunk(
            headers=tuple(self.headers[place] for place in kept),
            cell_row=cell_row.astype(np.int32),
            cell_header=place_H[self.cell_header[cells]],
            cell_value=self.cell_value.take(pa.array(cells)),
            row_number=self.row_number[rows],
        )


def make_chunks(
    headers: list[str],
    cell_row_C: NDArray[np.int32],
    cell_header_C: NDArray[np.int32],
    value_C: pa.StringArray,
    row_number_R: NDArray[np.int64],
    report: ReadReport,
) -> Iterator[Chunk]:
    """Yield the chunk of cells that lie row after row; none, if all rows are empty.

    Cells that are null, empty or white space are left out; rows without any other cell are entered as dropped.
    """
    data = value_C.buffers()[2]
    if data is not None and not np.frombuffer(data, dtype=np.uint8).all():
        for cell in np.flatnonzero(pc.fill_null(pc.match_substring(value_C, "\0"), False)):
            report.change(Loss.NUL_CHARACTER, int(row_number_R[cell_row_C[cell]]), "taken out")
        value_C = pc.replace_substring(value_C, "\0", "")
    value_C = pc.utf8_trim_whitespace(value_C)
    size_C = np.asarray(pc.fill_null(pc.binary_length(value_C), 0))
    if len(size_C) and size_C.max() > MAX_CELL:
        number = int(row_number_R[cell_row_C[size_C.argmax()]])
        raise report.refuse(f"a cell has more than {MAX_CELL:,} characters", number)
    present_C = size_C > 0
    if not present_C.all():
        value_C = value_C.filter(pa.array(present_C))
        cell_row_C, cell_header_C = cell_row_C[present_C], cell_header_C[present_C]
    filled_R = np.zeros(len(row_number_R), dtype=bool)
    filled_R[cell_row_C] = True
    report.count_rows(int(filled_R.sum()))
    for number in row_number_R[~filled_R].tolist():
        report.drop(Loss.EMPTY_ROW, number)
    if not filled_R.any():
        return
    if not filled_R.all():
        cell_row_C, row_number_R = (np.cumsum(filled_R) - 1)[cell_row_C], row_number_R[filled_R]
    # Of several writes to one place the last stays, which read backwards is the first appearance.
    first_H = np.full(len(headers), len(cell_header_C), dtype=np.int64)
    first_H[cell_header_C[::-1]] = np.arange(len(cell_header_C) - 1, -1, -1)
    order = np.argsort(first_H, kind="stable")[: np.count_nonzero(first_H < len(cell_header_C))]
    rank_H = np.zeros(len(headers), dtype=np.int32)
    rank_H[order] = np.arange(len(order), dtype=np.int32)
    yield Chunk(
        headers=tuple(headers[index] for index in order),
        cell_row=cell_row_C.astype(np.int32, copy=False),
        cell_header=rank_H[cell_header_C],
        cell_value=value_C,
        row_number=row_number_R,
    )


def to_strings(texts: list[str | None], line_C: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    """Make an Arrow array of texts; halves of surrogate pairs, which JSON can spell, are replaced and entered."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        mended = [text and replace_surrogates(text) for text in texts]
        for index, text in enumerate(mended):
            if text != texts[index]:
                report.change(Loss.NOT_UNICODE, int(line_C[index]), f"read as {text!r}")
        return pa.array(mended, pa.string())


def replace_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_header(key: str, unnamed: str = "unnamed") -> str:
    """Strip a header, take NUL characters out, and name it if nothing is left."""
    return replace_surrogates(key.replace("\0", "")).strip() or unnamed


def name_columns(cells: Iterable[str], report: ReadReport) -> list[str]:
    """Make headers of a row: stripped, `column_3` where a name is missing, `title (2)` where it is repeated."""
    cells = list(cells)
    unnamed = [f"column_{number}" for number, cell in enumerate(cells, 1) if not clean_header(cell, "")]
    if unnamed:
        shown = ", ".join(unnamed[:10]) + (f" and {len(unnamed) - 10} more" if len(unnamed) > 10 else "")
        report.note(f"columns without a name: {shown}")
    names = [clean_header(cell, f"column_{number}") for number, cell in enumerate(cells, 1)]
    places = np.arange(len(names), dtype=np.int32)
    headers, header_C = deduplicate_headers(names, np.zeros_like(places), places, report)
    return [headers[header] for header in header_C]


def find_header(rows: Sequence[Sequence[str]], numbers: Sequence[int], asked: int | None = None) -> int:
    """Return which of the first rows is the header: the first, or the one behind titles and remarks.

    Those fill at most half of the columns that the rows have, and a row of names, each once, stands behind them; a
    third of the columns may lack one. `asked` is the number of the header's row, where that is known.

    >>> find_header([["Films of 1985", "", ""], ["title", "year", "land"], ["Ran", "1985", "jp"]], [1, 3, 4])
    1
    """
    if asked is not None:
        return min(bisect_left(numbers, asked), len(rows) - 1)
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    widths = Counter(map(len, filled[1:]))
    width = max(widths, key=lambda each: (widths[each], each), default=0)
    place = next((place for place, cells in enumerate(filled) if 2 * len(cells) > width), 0)
    names, below = filled[place] if filled else [], filled[place + 1 :]
    if place == 0 or 3 * len(names) < 2 * width or not below or len(set(names)) < len(names):
        return 0
    years = [name for name in names if _YEAR.fullmatch(name)]
    odd = [name for name in names if _NUMBER.fullmatch(name) or len(name) > _LONGEST_NAME]
    # A header may have years in it, but then it has several.
    is_header = len(odd) == (len(years) if len(years) > 2 else 0)
    # Two columns, or a name too few, are little to go by: there, numbers below names show which row is the header.
    is_clear = len(names) >= max(width, 3) or any(_NUMBER.fullmatch(cell) for row in below for cell in row)
    return place if is_header and is_clear else 0


def read_header(
    rows: Sequence[tuple[int, Sequence[str]]], asked: int | None, report: ReadReport
) -> tuple[int, list[str]]:
    """Return which of the first rows is the header, and its names; the rows above it are entered."""
    place = find_header([cells for _, cells in rows], [number for number, _ in rows], asked)
    for number, cells in rows[:place]:
        text = " | ".join(cell.strip() for cell in cells if cell.strip())
        report.trouble(Loss.ABOVE_HEADER, f"{text!r}; the header is in row {rows[place][0]}", number)
    return place, name_columns(rows[place][1], report)


def deduplicate_headers(
    keys: list[str], cell_row_C: NDArray[np.int32], cell_key_C: NDArray[np.int32], report: ReadReport
) -> tuple[list[str], NDArray[np.int32]]:
    """Return clean headers and that of each cell; cells of one row that share a header get `title (2)` and so on."""
    index: dict[str, int] = {}
    header_K = np.array([index.setdefault(clean_header(key), len(index)) for key in keys], dtype=np.int32)
    header_C = header_K[cell_key_C]
    while True:
        place_C = cell_row_C.astype(np.int64) * len(index) + header_C
        order = np.arange(0) if (np.diff(place_C) > 0).all() else np.argsort(place_C, kind="stable")
        repeated = order[1:][np.diff(place_C[order]) == 0]
        if not len(repeated):
            return list(index), header_C
        headers, header_C = list(index), header_C.copy()
        met: Counter[int] = Counter()
        told: set[int] = set()
        # A row may have a `title (2)` of its own, so that this is done until nothing is repeated.
        for cell in np.sort(repeated).tolist():
            met[place_C[cell]] += 1
            name = headers[header_C[cell]]
            new = f"{name} ({met[place_C[cell]] + 1})"
            header_C[cell] = index.setdefault(new, len(index))
            if header_C[cell] not in told:
                told.add(header_C[cell])
                report.note(f"header {name!r} appears more than once: told apart as {new!r}")


def to_arrow(chunks: Iterable[Chunk]) -> pa.Table:
    """Make a table of strings, a column for each header in order of first appearance, absent cells null."""
    tables = [pa.table({})]
    for chunk in chunks:
        order = np.argsort(chunk.cell_header, kind="stable")
        ends = np.cumsum(np.bincount(chunk.cell_header, minlength=len(chunk.headers)))
        columns = []
        for cells in np.split(order, ends[:-1]) if chunk.headers else ():
            place = np.full(chunk.num_rows, -1, dtype=np.int64)
            place[chunk.cell_row[cells]] = cells
            columns.append(chunk.cell_value.take(pa.array(place, mask=place < 0)))
        tables.append(pa.table(columns, names=list(chunk.headers)))
    return pa.concat_tables(tables, promote_options="default")
