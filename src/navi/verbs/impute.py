"""Empty cells filled, each with a probability, or left empty with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus import Encoded, load_attributes
from navi.errors import ConfigError
from navi.report.cards import show_cards
from navi.tables import TABLE, ReadReport, Table, find_headers, find_members, read_table
from navi.tables.chunk import clean_header, name_columns
from navi.verbs.candidate_values import CandidateFinder, Candidates, Gaps
from navi.verbs.result import CARDS_SHOWN, TabularResult

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: M empty cells.

FILLED = "filled"
NO_GUESS = "no value found"
WRONG_TYPE = "value does not fit the column's type"
NOT_ASKED = "column not asked for"
NEVER_FILLED = "column never filled"
NO_OTHER_CELL = "row has no other cell"
UNFILLABLE = "column holds nested or binary cells"
CELLS_SHOWN = 5
"""Cells of a column that a notebook shows."""
ASKED = ""
"""The reason of a cell that can be guessed."""
OWN, TRAINED = "column", "training"
"""Where a guess comes from: a value that the column has, or one that only training tables had."""
NEW_COLUMNS = "columns never filled"
"""Name of the table that stands for columns without any cell."""

ACCOUNT = pa.schema(
    {
        "row": pa.int64(),
        "column": pa.string(),
        "value": pa.string(),
        "guess": pa.string(),
        "probability": pa.float64(),
        "kind": pa.string(),
        "reason": pa.string(),
    }
)

Frame = TypeVar("Frame")
Parse = Callable[[str], Any]
"""Turns text into a column's type; what the type cannot hold raises one of CANNOT."""
CANNOT = (ValueError, KeyError, pa.ArrowException)
Fill = Sequence[tuple[int, Any]]
"""Rows of one column, from 0, each with what is put there, of the column's own type."""


@dataclass(frozen=True, kw_only=True)
class Fills(TabularResult, Generic[Frame]):
    """A frame with its empty cells filled, and an account of each of them."""

    filled: Frame
    """The frame, of the kind given; cells that were not empty are as they were."""
    confidences: Frame
    """A frame of the same kind and shape: the probability of each value put in, null everywhere else."""
    cells: pa.Table
    """Every empty cell: `row` (its number in the source), `column`, `value` put in or null, `guess` in any case, its
    `probability` and `kind` (`column`, or `training` for a value that only training tables had), and the `reason`:
    filled, or why not, and where the guess comes from."""

    @property
    def num_filled(self) -> int:
        """Number of cells that were filled."""
        return int(self.cells.num_rows - self.cells["value"].null_count)

    def to_arrow(self) -> pa.Table:
        """Return the account of the cells."""
        return self.cells

    def _repr_html_(self) -> str:
        columns: dict[str, list[dict[str, Any]]] = {}
        for cell in sorted(
            self.cells.to_pylist(), key=lambda cell: (cell["value"] is None, -(cell["probability"] or 0))
        ):
            columns.setdefault(cell["column"], []).append(cell)
        shown = [(column, cells[:CELLS_SHOWN], len(cells) - CELLS_SHOWN) for column, cells in columns.items()]
        return show_cards("fills", filled=self.num_filled, number=self.cells.num_rows, columns=shown[:CARDS_SHOWN])


def impute_table(
    navi: Navi,
    frame: Frame,
    confidence: float,
    columns: Sequence[str] | None,
    progress: Callable[[int, int], None] | None,
) -> Fills[Frame]:
    """Return the frame with its empty cells filled; see `Navi.impute`. The frame itself is never changed."""
    if not 0.0 <= confidence <= 1.0:
        raise ConfigError(f"confidence must lie between 0 and 1, got {confidence}.")
    table = read_table(frame, navi.read_config, whole=True)
    empty = EmptyCells(navi, table, columns)
    encoded = navi.encode_whole({table.name: table, **empty.name_new_columns()})
    gaps = empty.find_gaps(encoded)
    finder = CandidateFinder(encoded, navi.trained_values, np.flatnonzero(encoded.arrays.row_table == 0))
    for found in finder.find(gaps):
        empty.take(encoded, found, confidence)
        if progress:
            progress(len(found.gaps), len(gaps))
    return empty.finish()


def _explain_source(encoded: Encoded, found: Candidates, gap: int) -> str:
    """Return in words where a candidate comes from: the row that it was taken from and why."""
    example, others = int(found.example[gap]), int(found.beside[gap])
    if example < 0:
        return f"the commonest value of {'the column' if found.values.own[found.best[gap]] else 'training tables'}"
    column, row = encoded.headers[int(found.header[gap])].as_py(), int(encoded.row_number[example])
    if others == 1:
        return f"copied from row {row}, the only one with the same {column}"
    return f"{found.agree[gap]} of {others} rows with the same {column} have it, first row {row}"


class EmptyCells:
    """The empty cells of a frame, row after row: those that can be guessed, what was, and those out of reach.

    **Shape**: M cells.
    """

    def __init__(self, navi: Navi, table: Table, columns: Sequence[str] | None) -> None:
        self._table = table
        self._frame = RowsFrame(table.frame) if isinstance(table.frame, list) else NativeFrame(table.frame)
        self._headers = self._frame.headers
        self._asked = frozenset(self._headers if columns is None else find_headers(self._headers, columns, table.name))
        present = self._find_present()
        # A list that is short in a row lacks nothing; frames with types of their own have it in one column.
        members = find_members(self._headers) if table.origin is None and table.typed is None else {}
        asked = self._asked - members.keys()
        self._parsers = [
            self._frame.make_parser(column) if header in asked and not present[column].all() else None
            for column, header in enumerate(self._headers)
        ]
        held: NDArray[np.bool_] = np.asarray(present.any(axis=1))
        new = [header for column, header in enumerate(self._headers) if self._parsers[column] and not held[column]]
        if new:
            mapping = load_attributes(navi.prepare_config.attributes)
            known = set(navi.trained_values["attribute"].unique().to_pylist())
            new = [header for header in new if mapping.attribute_of(TABLE, header) in known]
        self._trained = new
        reasons = np.array([self._explain(column, held[column]) for column in range(len(self._headers))], dtype=np.str_)
        self._row, self._column = np.nonzero(~present.T)
        alone = np.logical_not(present.any(axis=0))[self._row]
        self._reason = np.where((reasons[self._column] == ASKED) & alone, NO_OTHER_CELL, reasons[self._column])
        self._chosen = np.flatnonzero(self._reason == ASKED)
        facts = zip(table.row_number[self._row].tolist(), self._column, self._reason.tolist(), strict=True)
        self._account: list[dict[str, Any]] = [
            {"row": row, "column": self._headers[column], "reason": reason or NO_GUESS} for row, column, reason in facts
        ]
        self._put: dict[int, list[tuple[int, Any, float]]] = {}

    def _find_present(self) -> NDArray[np.bool_]:
        """Return which cells hold something: (columns, rows). A nested cell counts if any of its parts does."""
        place = {header: number for number, header in enumerate(self._headers)}
        present = np.zeros((len(self._headers), self._table.num_rows), dtype=bool)
        for chunk in self._table.chunks:
            column_C = np.array([_find_column(header, place) for header in chunk.headers], np.int64)[chunk.cell_header]
            row_C = self._table.find_rows(chunk.row_number)[chunk.cell_row]
            present[column_C[column_C >= 0], row_C[column_C >= 0]] = True
        return present

    def _explain(self, column: int, is_held: bool) -> str:
        """Return why a column cannot be filled, or ASKED."""
        if self._headers[column] not in self._asked:
            return NOT_ASKED
        if self._parsers[column] is None:
            return UNFILLABLE
        return ASKED if is_held or self._headers[column] in self._trained else NEVER_FILLED

    def name_new_columns(self) -> dict[str, list[dict[str, str]]]:
        """Return a table of one row that makes the columns known that training had but no row fills."""
        return {NEW_COLUMNS: [{header: header for header in self._trained}]} if self._trained else {}

    def find_gaps(self, encoded: Encoded) -> Gaps:
        """Return where the cells that can be guessed stand in the encoded tables."""
        arrays = encoded.arrays
        own = np.flatnonzero(arrays.row_table == 0)
        place = np.full(self._table.num_rows, -1, np.int64)
        place[self._table.find_rows(encoded.row_number[own])] = own
        texts = encoded.headers.take(pa.array(arrays.column_header)).to_pylist()
        # Columns are sorted by table, so that the frame's own come last and stay.
        column_of = {header: number for number, header in reversed(list(enumerate(texts)))}
        numbers = np.array([column_of.get(header, -1) for header in self._headers], dtype=np.int64)
        return Gaps(row=place[self._row[self._chosen]], column=numbers[self._column[self._chosen]])

    def take(self, encoded: Encoded, found: Candidates, confidence: float) -> None:
        """Put in the candidates of a column that are likely enough and of its type, and enter all into the account."""
        for gap, cell in enumerate(self._chosen[found.gaps].tolist()):
            best, probability, column = int(found.best[gap]), float(found.probability[gap]), int(self._column[cell])
            text, kind = found.values.texts[best], OWN if found.values.own[best] else TRAINED
            value, reason = self._judge(column, text, probability, confidence)
            self._account[cell] |= {"guess": text, "probability": probability, "kind": kind}
            self._account[cell]["reason"] = f"{reason}: {_explain_source(encoded, found, gap)}"
            if reason == FILLED:
                self._account[cell]["value"] = text
                self._put.setdefault(column, []).append((int(self._row[cell]), value, probability))

    def _judge(self, column: int, text: str, probability: float, confidence: float) -> tuple[Any, str]:
        """Return a candidate in the column's type and FILLED, or None and why it is not put in."""
        if probability < confidence:
            return None, f"below confidence {confidence:g}"
        parse = self._parsers[column]
        assert parse is not None, "a column that cannot be filled was asked for"
        try:
            return parse(text), FILLED
        except CANNOT:
            return None, WRONG_TYPE

    def finish(self) -> Fills[Any]:
        """Return the frame with what was put in, the probabilities of that, and the account of all empty cells."""
        put = self._put.items()
        return Fills(
            filled=self._frame.fill({column: [(row, value) for row, value, _ in cells] for column, cells in put}),
            confidences=self._frame.tabulate(
                {column: [(row, sure) for row, _, sure in cells] for column, cells in put}
            ),
            cells=pa.Table.from_pylist(self._account, ACCOUNT),
        )


def _find_column(header: str, place: Mapping[str, int]) -> int:
    """Return the column that a flat header belongs to: `cast.0.name` to `cast`, if there is none of its own name."""
    while header not in place and "." in header:
        header = header.rpartition(".")[0]
    return place.get(header, -1)


class RowsFrame:
    """A list of dictionaries; a key that some row has is a column."""

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self._rows = rows
        self._keys = list(dict.fromkeys(key for row in rows for key in row))
        self.headers = tuple(clean_header(str(key)) for key in self._keys)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into the type of a column's cells; None for nested and binary ones."""
        return _parse_like(row.get(self._keys[column]) for row in self._rows)

    def fill(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return copies of the rows with these cells filled."""
        return self._put([dict(row) for row in self._rows], fills)

    def tabulate(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return rows that hold these cells alone."""
        return self._put([{} for _ in self._rows], fills)

    def _put(self, rows: list[dict[Any, Any]], fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        for column, fill in fills.items():
            for row, value in fill:
                rows[row][self._keys[column]] = value
        return rows


class NativeFrame:
    """A pandas, Polars or Arrow frame."""

    def __init__(self, frame: Any) -> None:
        self._native = frame
        self._names = frame.column_names if isinstance(frame, pa.Table) else frame.columns
        texts = [".".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self._names]
        self.headers = tuple(name_columns(texts, ReadReport()))
        self._frame = nw.from_native(_rename(frame, self.headers), eager_only=True)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into a column's type; None for nested and binary cells."""
        series = self._frame[self.headers[column]]
        if series.dtype == nw.Object:
            return _parse_like(series.to_list())
        if series.dtype in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like():
            return {str(category): category for category in series.to_native().cat.categories}.__getitem__
        if isinstance(series.dtype, nw.Enum):
            return {category: category for category in series.dtype.categories}.__getitem__
        return _parse_type(series.to_arrow().type)

    def fill(self, fills: Mapping[int, Fill]) -> Any:
        """Return a copy of the frame with these cells filled."""
        columns = [_scatter(self._frame[self.headers[column]], fill) for column, fill in fills.items()]
        filled = self._frame.with_columns(*columns) if columns else self._frame.clone()
        return _rename(filled.to_native(), self._names)

    def tabulate(self, fills: Mapping[int, Fill]) -> Any:
        """Return a frame of the same kind and shape that holds these numbers alone, null everywhere else."""
        cells: dict[str, list[Any]] = {header: [None] * len(self._frame) for header in self.headers}
        for column, fill in fills.items():
            for row, value in fill:
                cells[self.headers[column]][row] = value
        made = nw.from_dict(cells, dict.fromkeys(self.headers, nw.Float64), backend=self._frame.implementation)
        named = _rename(made.to_native(), self._names)
        return named.set_axis(self._native.index, axis=0) if nw.dependencies.is_pandas_dataframe(named) else named


def _parse_like(cells: Iterable[Any]) -> Parse | None:
    """Return what turns text into the type that all cells share; cells of several types, and none at all, are text."""
    try:
        return _parse_type(pa.array(list(cells), from_pandas=True).type)
    except (pa.ArrowException, OverflowError):
        return str


def _parse_type(kind: pa.DataType) -> Parse | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind) or "binary" in str(kind):
        return None
    if pa.types.is_null(kind) or "string" in str(kind):
        return str
    if pa.types.is_decimal(kind):
        kind = pa.decimal128(38, kind.scale)
    return lambda text: pa.scalar(text).cast(kind).as_py()


def _scatter(series: nw.Series[Any], fill: Fill) -> nw.Series[Any]:
    """Put values into a copy of a column; dictionaries of Polars and Arrow are taken apart and made again."""
    kind = series.dtype
    coded = kind in (nw.Categorical, nw.Enum) and not series.implementation.is_pandas_like()
    plain = series.cast(nw.String) if coded else series
    written = plain.scatter([row for row, _ in fill], [value for _, value in fill])
    return written.cast(kind) if coded else written


def _rename(frame: Any, names: Any) -> Any:
    """Give a frame's columns other names, in order; not only texts, and repeated ones, where the kind allows them."""
    if isinstance(frame, pa.Table):
        return frame.rename_columns(list(names))
    if nw.dependencies.is_pandas_dataframe(frame):
        return frame.set_axis(names, axis=1)
    return nw.from_native(frame, eager_only=True).rename(dict(zip(frame.columns, names, strict=True))).to_native()
