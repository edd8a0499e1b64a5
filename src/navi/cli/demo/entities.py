"""The demo's rows of two catalogues that are about the same film, though no header is shared."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from navi.cli.demo.tour import Score, Tour, find_file, measure_f1
from navi.cli.progress import show_progress
from navi.cli.render import count_things, make_table
from navi.cli.search import show_cells

if TYPE_CHECKING:
    from navi.cli.demo.page import PairedRows
    from navi.tables import Table

MOST_ROWS = 500
"""Rows that a catalogue may have to be compared, to keep the demo short."""
SHOWN = 4
"""Pairs shown."""
Pairs = set[tuple[int, int]]


def find_same_films(tour: Tour) -> None:
    """Pair the rows of the two catalogues that share most films, and compare with the truth."""
    from navi.tables import read_table

    names = choose_tables(tour)
    left, right = (read_table(find_file(tour.tables, name)) for name in names)
    with show_progress(tour.screen) as meter:
        meter.wait(f"Comparing {left.name} and {right.name}")
        found = tour.model.find_pairs(left.frame, right.frame, one_to_one=True).to_arrow().to_pylist()
    truth = set(tour.truth.shared_rows(*names))
    pairs = [(place(tour, left, pair["left"]), place(tour, right, pair["right"])) for pair in found]
    tour.screen.summarise(
        f"{left.name} and {right.name} share {count_things(len(truth), 'film')}; "
        f"{count_things(len(pairs), 'pair')} found.",
        list_pairs(left, right, found),
    )
    tour.findings.paired_tables = names
    tour.findings.paired = [
        _describe(left, right, pair, is_right=places in truth) for pair, places in zip(found, pairs, strict=True)
    ]
    guess = measure_f1(pair_titles(tour, left, right), truth)
    task = f"rows of {left.name} and {right.name} about one film (F1)"
    tour.scores.append(Score(task=task, navi=measure_f1(set(pairs), truth), guess=guess, guess_name="equal titles"))


def _describe(left: Table, right: Table, pair: dict[str, Any], *, is_right: bool) -> PairedRows:
    from navi.cli.demo.page import PairedRows

    return PairedRows(
        left=list_cells(left, pair["left"]),
        right=list_cells(right, pair["right"]),
        confidence=pair["confidence"],
        is_right=is_right,
    )


def choose_tables(tour: Tour) -> tuple[str, str]:
    """Return the two catalogues of moderate size that share most films; of all, if there are no two such."""
    films = tour.truth.films
    moderate = [name for name, rows in films.items() if len(rows) <= MOST_ROWS]
    names = moderate if len(moderate) > 1 else list(films)
    return max(combinations(names, 2), key=lambda pair: len(tour.truth.shared_rows(*pair)))


def place(tour: Tour, table: Table, row: int) -> int:
    """Return the truth's number of a row of a frame, which counts from 1."""
    return int(table.row_number[row - 1]) - tour.truth.first_place[table.name]


def pair_titles(tour: Tour, left: Table, right: Table) -> Pairs:
    """Return the pairs of rows whose titles are the same text."""
    titles = [list_titles(tour, table) for table in (left, right)]
    places: dict[str, list[int]] = {}
    for number, title in titles[1].items():
        places.setdefault(title, []).append(number)
    return {(number, other) for number, title in titles[0].items() for other in places.get(title, [])}


def list_titles(tour: Tour, table: Table) -> dict[int, str]:
    """Return the titles of a catalogue's rows."""
    header = next(h for (name, h), concept in tour.truth.concepts.items() if (name, concept) == (table.name, "title"))
    titles = table.frame[header].to_pylist()
    return {place(tour, table, row): str(title).casefold() for row, title in enumerate(titles, 1) if title is not None}


def list_pairs(left: Table, right: Table, pairs: list[dict[str, Any]]) -> Any:
    """Return the surest pairs, cells beside each other."""
    rows = []
    for pair in pairs[:SHOWN]:
        cells = [show_cells(list_cells(table, pair[side])) for table, side in ((left, "left"), (right, "right"))]
        rows.append((f"{pair['confidence']:.2f}", *cells))
    return make_table(("confidence", left.name, right.name), rows, right=("confidence",))


def list_cells(table: Table, row: int) -> dict[str, str]:
    """Return what a row of a frame, counted from 1, holds."""
    cells = table.frame.slice(row - 1, 1).to_pylist()[0]
    return {header: str(value) for header, value in cells.items() if value is not None}
