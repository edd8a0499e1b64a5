"""The demo's unnamed columns: headers hidden, and found again from the values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from navi.cli.demo.tour import Score, Tour, find_file
from navi.cli.progress import show_progress
from navi.cli.render import make_table, shorten

if TYPE_CHECKING:
    from navi.cli.demo.page import NamedColumn
    from navi.tables import Table
    from navi.verbs.name import ColumnNames

EXAMPLES = 3
"""Values of a column that are shown."""


def name_columns(tour: Tour) -> None:
    """Hide the headers of a catalogue that no training saw, and name its columns."""
    from navi.tables import read_table

    table = read_table(find_file(tour.tables, tour.unseen_tables[0]))
    learned = list_learned(tour)
    headers = [header for header in table.frame.column_names if find_meaning(tour, table.name, header) in learned]
    with show_progress(tour.screen) as meter:
        meter.wait(f"Naming the columns of {table.name}")
        found = tour.model.name_columns(table.frame, headers)
    named = [describe_column(tour, table, each) for each in found]
    tour.findings.named = named
    tour.screen.summarise(
        f"{table.name} was not in the training; of each column the header is hidden and the values are shown.",
        list_named(named),
    )
    usual = guess_meaning(tour)
    guess = sum(find_meaning(tour, table.name, header) == usual for header in headers)
    count = max(len(named), 1)
    right = sum(column.is_right for column in named)
    task = f"columns of {table.name}, unseen, named"
    tour.scores.append(Score(task=task, navi=right / count, guess=guess / count, guess_name="most frequent meaning"))


def find_meaning(tour: Tour, table: str, header: str) -> str | None:
    """Return what a column means."""
    return tour.truth.concept_of(table, header)


def list_learned(tour: Tour) -> set[str]:
    """Return the meanings that some training table has a column of: no other can be named."""
    unseen = set(tour.unseen_tables)
    return {concept for (table, _), concept in tour.truth.concepts.items() if table not in unseen}


def list_meanings(tour: Tour, name: str) -> set[str]:
    """Return what a proposed name means in the catalogues that have it as a header, or as its words."""
    from navi.corpus import canonicalise

    wanted = canonicalise(name)
    return {concept for (_, header), concept in tour.truth.concepts.items() if canonicalise(header) == wanted}


def guess_meaning(tour: Tour) -> str:
    """Return the meaning that most columns of the training tables have."""
    unseen = set(tour.unseen_tables)
    counted = Counter(concept for (table, _), concept in tour.truth.concepts.items() if table not in unseen)
    return counted.most_common(1)[0][0]


def describe_column(tour: Tour, table: Table, names: ColumnNames) -> NamedColumn:
    """Return a column with its proposed names, and whether the first is right."""
    from navi.cli.demo.page import NamedColumn

    best = names.candidates[0].header if names.candidates else ""
    values = table.frame[names.column].drop_null().unique().slice(0, EXAMPLES)
    return NamedColumn(
        table=table.name,
        header=names.column,
        values=tuple(shorten(str(value), 30) for value in values.to_pylist()),
        candidates=tuple((each.header, each.probability) for each in names.candidates),
        is_right=find_meaning(tour, table.name, names.column) in list_meanings(tour, best),
    )


def list_named(named: list[NamedColumn]) -> Any:
    """Return the columns with their hidden headers, values and proposed names."""
    rows = [
        (
            column.header,
            shorten(", ".join(column.values), 50),
            *((name, f"{probability:.2f}") if column.candidates else ("–", "")),
            "right" if column.is_right else "wrong",
        )
        for column in named
        for name, probability in [column.candidates[0] if column.candidates else ("", 0.0)]
    ]
    return make_table(("hidden header", "values", "proposed", "probability", ""), rows, right=("probability",))
