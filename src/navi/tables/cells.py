"""Cells put together into a chunk: stripped, the absent left out, headers told apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.chunk import Chunk
from navi.tables.readreport import EMPTY_ROW, NOT_UNICODE, NUL_CHARACTER, ReadReport

UNNAMED = "unnamed"
"""Header of a value whose key is empty."""

# Shape suffixes: C cells, R rows, H headers.


def assemble(
    headers: list[str],
    cell_row_C: NDArray[np.int32],
    cell_header_C: NDArray[np.int32],
    value_C: pa.StringArray,
    row_number_R: NDArray[np.int64],
    report: ReadReport,
) -> Chunk | None:
    """Make a chunk of cells that lie row after row, or None of rows that are all empty.

    Cells that are null, empty or white space are left out; rows without any other cell are entered as dropped.
    """
    value_C = _strip(value_C, row_number_R[cell_row_C], report)
    present_C = np.asarray(pc.fill_null(pc.binary_length(value_C), 0)) > 0
    if not present_C.all():
        value_C = value_C.filter(pa.array(present_C))
        cell_row_C, cell_header_C = cell_row_C[present_C], cell_header_C[present_C]
    cell_row_C, row_number_R = _drop_empty_rows(cell_row_C, row_number_R, report)
    if not len(row_number_R):
        return None
    order = order_of_appearance(cell_header_C, len(headers))
    rank_H = np.zeros(len(headers), dtype=np.int32)
    rank_H[order] = np.arange(len(order), dtype=np.int32)
    return Chunk(
        headers=tuple(headers[index] for index in order),
        cell_row=cell_row_C.astype(np.int32, copy=False),
        cell_header=rank_H[cell_header_C],
        cell_value=value_C,
        row_number=row_number_R,
    )


def order_of_appearance(index_C: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """List the distinct numbers of `index_C`, all below `size`, in order of first appearance."""
    first = np.full(size, len(index_C), dtype=np.int64)
    # Of several writes to one place the last stays, which read backwards is the first appearance.
    first[index_C[::-1]] = np.arange(len(index_C) - 1, -1, -1)
    order = np.argsort(first, kind="stable")
    return order[first[order] < len(index_C)]


def _strip(value_C: pa.StringArray, line_C: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    data = value_C.buffers()[2]
    if data is not None and not np.frombuffer(data, dtype=np.uint8).all():
        for cell in np.flatnonzero(pc.fill_null(pc.match_substring(value_C, "\0"), False)):
            report.change(NUL_CHARACTER, int(line_C[cell]), "taken out")
        value_C = pc.replace_substring(value_C, "\0", "")
    return pc.utf8_trim_whitespace(value_C)


def _drop_empty_rows(
    cell_row_C: NDArray[np.int32], row_number_R: NDArray[np.int64], report: ReadReport
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    filled_R = np.zeros(len(row_number_R), dtype=bool)
    filled_R[cell_row_C] = True
    report.read += int(filled_R.sum())
    if filled_R.all():
        return cell_row_C, row_number_R
    for line in row_number_R[~filled_R]:
        report.drop(EMPTY_ROW, int(line))
    new_R = (np.cumsum(filled_R) - 1).astype(np.int32)
    return new_R[cell_row_C], row_number_R[filled_R]


def to_strings(texts: list[str | None], line_C: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    """Make an Arrow array of texts; halves of surrogate pairs, which JSON can spell, are replaced and entered."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        mended = list(texts)
        for index, text in enumerate(texts):
            if text is not None and not _is_unicode(text):
                mended[index] = mend_surrogates(text)
                report.change(NOT_UNICODE, int(line_C[index]), f"read as {mended[index]!r}")
        return pa.array(mended, pa.string())


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mend_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_header(key: str, unnamed: str = UNNAMED) -> str:
    """Strip a header, take NUL characters out, and name it if nothing is left."""
    return mend_surrogates(key.replace("\0", "")).strip() or unnamed


def name_apart(name: str, taken: set[str]) -> str:
    """Return a name like `title (2)` that is not in `taken`, and put it there."""
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    told = f"{name} ({number})"
    taken.add(told)
    return told


def tell_apart(
    headers: list[str], cell_row_C: NDArray[np.int32], cell_header_C: NDArray[np.int32], report: ReadReport
) -> NDArray[np.int32]:
    """Give cells that share row and header a header each, such as `title (2)`, which is added to `headers`."""
    place_C = cell_row_C.astype(np.int64) * len(headers) + cell_header_C
    if (np.diff(place_C) > 0).all():
        return cell_header_C
    order = np.argsort(place_C, kind="stable")
    repeated = np.sort(order[1:][np.diff(place_C[order]) == 0])
    if not len(repeated):
        return cell_header_C
    told_C = cell_header_C.copy()
    index = {header: number for number, header in enumerate(headers)}
    taken: set[str] = set()
    row = -1
    for cell in repeated:
        if cell_row_C[cell] != row:
            row = cell_row_C[cell]
            begin, end = np.searchsorted(cell_row_C, [row, row + 1])
            taken = {headers[header] for header in cell_header_C[begin:end]}
        name = headers[cell_header_C[cell]]
        told = name_apart(name, taken)
        report.note(f"header {name!r} appears more than once in a row: told apart as {told!r}")
        if told not in index:
            index[told] = len(headers)
            headers.append(told)
        told_C[cell] = index[told]
    return told_C
