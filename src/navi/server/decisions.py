"""What people decided, on disk before it counts: decisions on columns, and labels of pairs of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from navi.errors import TableError
from navi.tables import read_tables, write_table
from navi.verbs.column_groups import ColumnRef, Decision
from navi.verbs.link import RowPair
from navi.verbs.match import DECISION_COLUMNS, read_decisions

NOTHING = ColumnRef("", "")
LABEL_FIELDS = ("left_table", "left_row", "right_table", "right_row", "same")
ANSWERS = {"same": "yes", "different": "no", "unsure": ""}

Line = dict[str, str | None]
Pair = frozenset[ColumnRef]
Key = tuple[str, ...]
"""Table and row of both rows of a labelled pair."""


def _read_lines(file: Path) -> list[Line]:
    return [line for table in read_tables(file, keep_empty=True).values() for line in table.text.to_pylist()]


def _write_lines(lines: Iterable[Line], names: Sequence[str], file: Path) -> None:
    lines = list(lines)
    write_table(pa.table({name: pa.array([line.get(name) for line in lines], pa.string()) for name in names}), file)


class Decisions:
    """A file of decisions: every change is on disk, whole, before it counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.decisions: tuple[Decision, ...] = ()
        self.before: list[tuple[Decision, ...]] = []
        """What undoing goes back to, the last change last."""
        self._lines: dict[Pair, Line] = {}
        self._seen = -1
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if someone else has written it."""
        seen = self.file.stat().st_mtime_ns if self.file.exists() else 0
        if seen and seen != self._seen:
            self.decisions = read_decisions(self.file)
            self._lines = {_find_pair(line): line for line in _read_lines(self.file)}
        self._seen = seen

    def change(self, decisions: Iterable[Decision]) -> None:
        """Put decisions in the place of those there are."""
        self.before.append(self.decisions)
        self._write(tuple(dict.fromkeys(decisions)))

    def undo(self) -> bool:
        """Go back one change; false where there is none."""
        if not self.before:
            return False
        self._write(self.before.pop())
        return True

    def _write(self, decisions: tuple[Decision, ...]) -> None:
        lines: dict[Pair, Line] = {}
        for each in decisions:
            cells = (*vars(each.first).values(), *vars(each.second).values(), "yes" if each.same else "no")
            lines[pair(each)] = {**self._lines.get(pair(each), {}), **dict(zip(DECISION_COLUMNS, cells, strict=True))}
        # What nobody has decided on yet stays to be decided on.
        given = {pair(each) for each in self.decisions}
        rest = {both: {**line, "same": None} for both, line in self._lines.items() if both not in lines}
        lines |= {both: line for both, line in rest.items() if both not in given or len(line) > len(DECISION_COLUMNS)}
        names = dict.fromkeys([*DECISION_COLUMNS, *(name for line in lines.values() for name in line)])
        _write_lines(lines.values(), [*names], self.file)
        self.decisions, self._lines = decisions, lines
        self._seen = self.file.stat().st_mtime_ns


def _find_pair(line: Mapping[str, str | None]) -> Pair:
    table, column, other_table, other_column, _ = (line.get(name) or "" for name in DECISION_COLUMNS)
    return frozenset((ColumnRef(table, column), ColumnRef(other_table, other_column)))


def pair(decision: Decision) -> Pair:
    """Return both columns of a decision."""
    return frozenset((decision.first, decision.second))


def is_name(decision: Decision) -> bool:
    """Return whether a decision gives a column its unified name."""
    return decision.same and not decision.second.table


def free(decisions: Iterable[Decision], columns: Iterable[ColumnRef]) -> list[Decision]:
    """Return decisions without those that say that one of some columns stands alone."""
    wanted = set(columns)
    return [each for each in decisions if each.second != NOTHING or each.first not in wanted]


def part(decisions: Iterable[Decision], column: ColumnRef, rest: Sequence[ColumnRef]) -> list[Decision]:
    """Return decisions in which a column is none of the rest; what joined them, over others too, is taken back."""
    joined = {column, *rest}
    kept = [each for each in decisions if not (each.same and column in pair(each) and pair(each) <= joined)]
    while (group := join_columns(kept)) and any(group.get(column, column) == group.get(each, each) for each in rest):
        kept.remove(next(each for each in kept if each.same and column in pair(each) and not is_name(each)))
    return [*kept, *(Decision(first=column, second=each, same=False) for each in rest)]


def join_columns(decisions: Iterable[Decision]) -> dict[ColumnRef, ColumnRef]:
    """Return the head of the group of each column that was decided to be another."""
    head: dict[ColumnRef, ColumnRef] = {}

    def find(column: ColumnRef) -> ColumnRef:
        while head.setdefault(column, column) != column:
            column = head[column]
        return column

    for each in decisions:
        if each.same and each.second.table:
            head[find(each.second)] = find(each.first)
    return {column: find(column) for column in list(head)}


class Labels:
    """A file of labelled pairs of rows: every answer is on disk, whole, before it counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.answers: dict[Key, str] = {}
        for line in _read_lines(file) if file.exists() else ():
            if missing := [name for name in LABEL_FIELDS if name not in line]:
                raise TableError(f"{file} has no column '{missing[0]}'. Labels have {', '.join(LABEL_FIELDS)}.")
            *key, answer = (line[name] or "" for name in LABEL_FIELDS)
            self.answers[tuple(key)] = answer

    def give(self, key: Key, answer: str) -> None:
        """Label a pair, again if need be; the last label comes last."""
        self._write({known: given for known, given in self.answers.items() if known != key} | {key: answer})

    def take_back(self) -> Key | None:
        """Forget the last label, and return whose it was."""
        if not self.answers:
            return None
        *kept, last = self.answers
        self._write({key: self.answers[key] for key in kept})
        return last

    def list_given(self, tables: set[str]) -> list[Line]:
        """Return the labels of two tables as `navi link` reads them; those that are unsure are none."""
        given = ((key, answer) for key, answer in self.answers.items() if answer and {key[0], key[2]} == tables)
        return [*map(_make_line, given)]

    def _write(self, answers: dict[Key, str]) -> None:
        _write_lines(map(_make_line, answers.items()), LABEL_FIELDS, self.file)
        self.answers = answers


def _make_line(label: tuple[Key, str]) -> Line:
    key, answer = label
    return dict(zip(LABEL_FIELDS, (*key, answer or None), strict=True))


def make_key(found: RowPair) -> Key:
    """Return what a pair of rows is labelled under."""
    return found.left.table, str(found.left.row), found.right.table, str(found.right.row)
