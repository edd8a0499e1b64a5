"""Pairs of rows to decide on: what `navi link` finds between two tables, and a file of labels for it to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from navi.errors import TableError
from navi.server.jobs import Tasks
from navi.tables import Table, read_tables, write_table
from navi.verbs import Navi
from navi.verbs.link import RowPair, RowRef

LABEL_FIELDS = ("left_table", "left_row", "right_table", "right_row", "same")
THRESHOLD = 0.05
"""Probability from which a pair is shown: those below the line are worth a look, too."""
ANSWERS = {"same": "yes", "different": "no", "unsure": ""}

Key = tuple[str, str, str, str]


class Labels:
    """A file of labelled pairs of rows: every answer is on disk, whole, before it counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.answers: dict[Key, str] = {}
        if file.exists():
            (table,) = read_tables(file, keep_empty=True).values()
            if missing := [name for name in LABEL_FIELDS if name not in table.headers]:
                raise TableError(f"{file} has no column '{missing[0]}'. Labels have {', '.join(LABEL_FIELDS)}.")
            for *key, answer in ((line[name] or "" for name in LABEL_FIELDS) for line in table.text.to_pylist()):
                self.answers[key[0], key[1], key[2], key[3]] = answer

    def give(self, key: Key, answer: str) -> None:
        """Label a pair, again if need be; the last label comes last."""
        self._write({known: given for known, given in self.answers.items() if known != key} | {key: answer})

    def take_back(self) -> Key | None:
        """Forget the last label, and return whose it was."""
        if not self.answers:
            return None
        last = [*self.answers][-1]
        self._write({key: answer for key, answer in self.answers.items() if key != last})
        return last

    def _write(self, answers: dict[Key, str]) -> None:
        lines = [(*key, answer or None) for key, answer in answers.items()]
        columns = {name: pa.array([line[k] for line in lines], pa.string()) for k, name in enumerate(LABEL_FIELDS)}
        write_table(pa.table(columns), self.file)
        self.answers = answers


class RowReview:
    """Pairs of rows under review, linked when two tables are chosen."""

    def __init__(self, navi: Navi, tables: Mapping[str, Table], labels: Path, tasks: Tasks) -> None:
        self.labels = Labels(labels)
        self._navi, self._tables, self._tasks = navi, tables, tasks

    def start_linking(self, left: str, right: str) -> tuple[RowPair, ...] | str | None:
        """Return the pairs of two tables, None while they are sought, and a text if that failed."""
        return self._tasks.start(("link", left, right), lambda: self._link(left, right))

    def forget(self, left: str, right: str) -> None:
        """Have two tables linked again, with the labels there are."""
        self._tasks.forget(("link", left, right))

    def _link(self, left: str, right: str) -> tuple[RowPair, ...]:
        lines = [
            dict(zip(LABEL_FIELDS, (*key, answer), strict=True))
            for key, answer in self.labels.answers.items()
            if answer and {key[0], key[2]} == {left, right}
        ]
        tables = {name: self._tables[name] for name in (left, right)}
        return tuple(self._navi.link(tables, threshold=THRESHOLD, labels=lines or None))

    def list_open(self, pairs: tuple[RowPair, ...]) -> list[RowPair]:
        """Return the pairs without a label, the most doubtful first."""
        open_pairs = (pair for pair in pairs if make_key(pair) not in self.labels.answers)
        return sorted(open_pairs, key=lambda pair: abs(pair.probability - 0.5))

    def read_row(self, row: RowRef) -> dict[str, str]:
        """Return the cells of a row."""
        table = self._tables[row.table]
        place = int((table.row_number == row.row).argmax())
        cells: dict[str, str | None] = table.text.slice(place, 1).to_pylist()[0]
        return {header: cell for header, cell in cells.items() if cell}


def make_key(pair: RowPair) -> Key:
    """Return what a pair is labelled under."""
    return pair.left.table, str(pair.left.row), pair.right.table, str(pair.right.row)
