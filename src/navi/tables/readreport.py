"""How a table is read, and what reading it lost or changed: counted in full, listed with file and line."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from navi.errors import ConfigError, TableError
from navi.settings import check_bounds


class Loss(StrEnum):
    """What reading loses or changes."""

    # Why rows were dropped.
    BROKEN_ROW = "broken row"  # its text cannot be parsed
    NOT_AN_OBJECT = "not an object"  # a JSON value, but no object with headers and values
    CUT_OFF = "cut off by damage"  # the last before a truncated or damaged file ends
    UNCLOSED_QUOTE = "quote never closed"  # a cell begins with a quote that nothing closes, or that swallows rows
    TOO_DEEP = "nested too deeply"  # deeper than Python can follow, or than a header can name
    EMPTY_ROW = "row without any cell"

    # Why cells were lost or changed.
    FAMILY_LIMIT = "family member beyond the limit"  # of a later member of a list than `max_family` keeps
    BEYOND_HEADER = "cell beyond the header"  # the row has more cells than the header has names
    MISSING_CELL = "cell missing at the end of the row"  # the row ends before the header does
    BINARY_CELL = "binary value"  # bytes that are no text
    WRONG_ENCODING = "another encoding"  # the line is not in the file's encoding; counted once a line
    NUL_CHARACTER = "NUL character"  # taken out
    NOT_UNICODE = "half of a surrogate pair"  # a character that exists only as half of a pair, replaced
    NOT_READABLE = "not what its type says"  # a number, date or reference of a sheet that is none; its text stays

    # What is wrong with a whole file.
    DAMAGED = "damaged file"  # truncated or corrupt; what was good before that is read
    EMPTY_FILE = "empty file"
    MISLABELLED = "not what its suffix says"  # its content shows another format, and it is read as that
    ABOVE_HEADER = "above the header"  # titles and remarks before the table begins, not read


MAX_PLACES, MAX_DETAIL = 1000, 300
"""Most places listed for one reason, and characters of each; counts stay complete."""

# What is refused with an error, because no table has it and a hostile file may.
MAX_CELL = 1 << 24
"""Characters of a cell."""
MAX_LINE = 1 << 26
"""Characters of a line, of a row, or of a value in JSON."""
MAX_HEADER = 1 << 12
"""Characters of a header that is put together from nested names."""
MAX_COLUMNS = 1 << 16
"""Columns of a table."""
MAX_CONTENT, MAX_RATIO = 1 << 28, 500
"""Bytes that any file may become when it is decompressed, and how many times its own size a larger one may."""

MAX_ROWS, MAX_ROWS_PER_BYTE = 1 << 22, 16
"""Rows, and lines, that any file may have, and how many for each of its bytes a larger one may."""

HEADER_ROWS = 50
"""First rows among which the header is sought."""


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """How a table is read and flattened."""

    chunk_rows: int = 8192
    """Most rows of a chunk; rows that are very long make it smaller."""
    max_family: int | None = 3
    """Members of a list that stay, the first ones, at each level of nesting; None keeps all."""
    encoding: str | None = None
    """Encoding of text files; None detects it."""
    delimiter: str | None = None
    """Character between the cells of a CSV file; None detects it."""
    header_row: int | None = None
    """Line of a CSV file, or row of a sheet, that holds the header; None finds it behind titles and remarks."""
    strict: bool = False
    """Whether the first loss is an error; what `max_family` leaves out is a choice and no loss in this sense."""

    def __post_init__(self) -> None:
        check_bounds(self, "chunk_rows", "max_family", "header_row", least=1)
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ConfigError(f"delimiter must be one character, no quote and no line end, got {self.delimiter!r}.")
        try:
            # Codecs that are no text encodings, such as base64, are looked up well but refused here.
            "text".encode(codecs.lookup(self.encoding or "utf-8").name)
        except LookupError as error:
            raise ConfigError(
                f"encoding {self.encoding!r} is no text encoding that Python knows; try 'utf-8' or 'cp1252'."
            ) from error


DEFAULT = ReadConfig()
"""Tables as they are read if nothing else is said."""


@dataclass(kw_only=True)
class ReadReport:
    """What became of one table's rows: `read` is those kept and those dropped."""

    read: int = 0
    """Rows met in the source."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows lost, by reason."""
    cells: Counter[str] = field(default_factory=Counter)
    """Cells lost or changed while their row was kept, by reason."""
    places: dict[str, list[str]] = field(default_factory=dict)
    """Where, by reason, as `file:line: detail`; at most `MAX_PLACES` a reason."""
    notes: list[str] = field(default_factory=list)
    """Things about the whole source, such as its encoding and delimiter."""
    headers: list[str] = field(default_factory=list, compare=False)
    """Headers that the source declares, those without any cell among them; none where each row brings its own."""
    source: str = field(default="frame", compare=False)
    """The source as places name it."""
    strict: bool = field(default=False, compare=False)
    """Whether the first loss is an error."""
    max_rows: int | None = field(default=None, compare=False)
    """Rows and lines that the source may have; None for any number."""

    @property
    def kept(self) -> int:
        """Rows kept."""
        return self.read - self.dropped.total()

    @property
    def explanation(self) -> str:
        """Why there are no rows, where there are none."""
        dropped = [f"{reason} ({count:,})" for reason, count in self.dropped.items()]
        return f"{self.source}: {', '.join([*self.notes, *dropped]) or 'it has a header and no rows'}"

    def count_rows(self, num_rows: int) -> None:
        """Enter rows as met."""
        self.read += num_rows
        self.check_rows(self.read)

    def check_rows(self, number: int) -> None:
        """Refuse a source that has so many rows or lines that no table of its size in bytes has them."""
        if self.max_rows is not None and number > self.max_rows:
            rows = f"it has more than {self.max_rows:,} rows or lines, far more than a table of its size"
            raise self.refuse(f"{rows}. If you trust it, write it again without compression")

    def refuse(self, problem: str, line: int | None = None) -> TableError:
        """Return the error of a source that cannot be read."""
        return TableError(f"Cannot read {self.source}{'' if line is None else f':{line}'}: {problem}.")

    def drop(self, reason: str, line: int, detail: str = "", num_rows: int = 1) -> None:
        """Enter a row, or several from this line on, as met and lost."""
        self.count_rows(num_rows)
        self.dropped[reason] += num_rows
        self._list(reason, f"{self.source}:{line}", detail)

    def change(self, reason: str, line: int, detail: str = "", num_cells: int = 1) -> None:
        """Enter cells as lost or changed in a row that is kept."""
        self.cells[reason] += num_cells
        self._list(reason, f"{self.source}:{line}", detail)

    def drop_members(self, line: int, header: str, num_members: int, limit: int, num_cells: int) -> None:
        """Enter the cells of a list's members beyond the limit, if there are any."""
        if num_cells:
            self.change(Loss.FAMILY_LIMIT, line, f"{header} has {num_members} members, {limit} stay", num_cells)

    def trouble(self, reason: str, detail: str, line: int | None = None) -> None:
        """Enter something wrong with the whole source."""
        self.note(f"{reason}: {detail}")
        self._list(reason, self.source if line is None else f"{self.source}:{line}", detail)

    def note(self, text: str) -> None:
        """Enter something about the whole source, once."""
        text = _shorten(text)
        if len(self.notes) < MAX_PLACES and text not in self.notes:
            self.notes.append(text)

    def _list(self, reason: str, place: str, detail: str) -> None:
        detail = _shorten(detail)
        if self.strict and reason != Loss.FAMILY_LIMIT:
            described = f"{reason}: {detail}" if detail else reason
            raise TableError(f"{place}: {described}. Mend the source, or read it without strict.")
        places = self.places.setdefault(reason, [])
        if len(places) < MAX_PLACES:
            places.append(f"{place}: {detail}" if detail else place)


def join_reasons(reasons: Sequence[str]) -> str:
    """Return the first ten reasons in one line, and how many more there are.

    >>> join_reasons(["a.csv is empty.", "b.csv: no rows"])
    'a.csv is empty; b.csv: no rows.'
    """
    rest = f"; and {len(reasons) - 10} more" if len(reasons) > 10 else ""
    return "; ".join(reason.rstrip(".") for reason in reasons[:10]) + rest + "."


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}…"
