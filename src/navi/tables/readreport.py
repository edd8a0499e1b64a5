"""What reading a table lost or changed: counted in full, listed with file and line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from navi.errors import TableError

BROKEN_ROW = "broken row"
"""Reason of a dropped row: its text cannot be parsed."""
NOT_AN_OBJECT = "not an object"
"""Reason of a dropped row: a JSON value, but no object with headers and values."""
CUT_OFF = "cut off by damage"
"""Reason of a dropped row: it is the last before a truncated or damaged file ends."""
UNCLOSED_QUOTE = "quote never closed"
"""Reason of a dropped row: a cell begins with a quote that nothing closes, or is too long to be a cell."""
TOO_LONG = "row too long"
"""Reason of a dropped row: it is longer than any row of a table should be."""
TOO_DEEP = "nested too deeply"
"""Reason of a dropped row: its nesting exceeds what Python can follow."""
EMPTY_ROW = "row without any cell"
"""Reason of a dropped row: all its cells are absent."""

FAMILY_LIMIT = "family member beyond the limit"
"""Reason of lost cells: they belong to a later member of a list than `max_family` keeps."""
BEYOND_HEADER = "cell beyond the header"
"""Reason of lost cells: the row has more cells than the header has names."""
MISSING_CELL = "cell missing at the end of the row"
"""Reason of absent cells: the row ends before the header does."""
BINARY_CELL = "binary value"
"""Reason of lost cells: bytes that are no text."""
WRONG_ENCODING = "another encoding"
"""Reason of changed cells: the line is not in the file's encoding; counted once a line."""
NUL_CHARACTER = "NUL character"
"""Reason of changed cells: NUL characters were taken out."""
NOT_UNICODE = "half of a surrogate pair"
"""Reason of changed cells: a character that exists only as half of a pair was replaced."""

DAMAGED = "damaged file"
"""Trouble of a whole file: it is truncated or corrupt, and what was good before that is read."""
EMPTY_FILE = "empty file"
"""Trouble of a whole file: there is nothing in it."""
MISLABELLED = "not what its suffix says"
"""Trouble of a whole file: its content shows another format, and it is read as that."""

MAX_PLACES = 1000
"""Most places listed for one reason; counts stay complete."""
_CHOSEN = frozenset({FAMILY_LIMIT})


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

    @property
    def kept(self) -> int:
        """Rows kept."""
        return self.read - self.dropped.total()

    def drop(self, reason: str, line: int, detail: str = "", num_rows: int = 1) -> None:
        """Enter a row, or several from this line on, as met and lost."""
        self.read += num_rows
        self.dropped[reason] += num_rows
        self._list(reason, f"{self.source}:{line}", detail)

    def change(self, reason: str, line: int, detail: str = "", num_cells: int = 1) -> None:
        """Enter cells as lost or changed in a row that is kept."""
        self.cells[reason] += num_cells
        self._list(reason, f"{self.source}:{line}", detail)

    def trouble(self, reason: str, detail: str, line: int | None = None) -> None:
        """Enter something wrong with the whole source."""
        self.note(f"{reason}: {detail}")
        self._list(reason, self.source if line is None else f"{self.source}:{line}", detail)

    def note(self, text: str) -> None:
        """Enter something about the whole source, once."""
        if len(self.notes) < MAX_PLACES and text not in self.notes:
            self.notes.append(text)

    def _list(self, reason: str, place: str, detail: str) -> None:
        if self.strict and reason not in _CHOSEN:
            described = f"{reason}: {detail}" if detail else reason
            raise TableError(f"{place}: {described}. Mend the source, or read it without strict.")
        places = self.places.setdefault(reason, [])
        if len(places) < MAX_PLACES:
            places.append(f"{place}: {detail}" if detail else place)
