"""The demo's questions: what the model answers to each, beside the truth and beside a simple guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Set
from itertools import combinations
from typing import TYPE_CHECKING, Any

from navi.cli.ask_columns import list_columns
from navi.cli.ask_rows import list_cells, show_cells
from navi.cli.console import count_things, format_count, shorten
from navi.cli.progress import follow_share, show_progress

if TYPE_CHECKING:
    from navi.cli.demo import Tour
    from navi.tables import Table
    from navi.verbs.match import Matches

ColumnPlace = tuple[str, str]
CONFIDENCE = 0.6
"""How sure a fill must be."""
ROWS_FILLED, ROWS_PAIRED = 150, 500
"""Rows of a table that are filled, and that a table to be paired may have, to keep the demo short."""
FEWEST_FOR_RELIABILITY = 20
"""Fills below which their reliability is chance."""
MOST_FILLS, MOST_PAIRS = 200, 50
"""Rows that the page's tables have at most."""
TABLES_MAPPED, ROWS_MAPPED, SEGMENTS_MAPPED = 5, 50, 1000
"""How much of the tables is drawn on the map."""


def match_columns(tour: Tour) -> None:
    """Match the columns of all catalogues, and compare with what they mean."""
    from navi.report import ReportColumn

    with show_progress(tour.screen) as meter:
        meter.wait(f"Comparing the columns of {count_things(len(tour.tables), 'table')}")
        found = tour.model.match(tour.tables)
    records: list[dict[str, Any]] = []
    for cluster in found.clusters:
        meanings = Counter(tour.truth.concept_of(each.table, each.header) for each in cluster.columns)
        meaning, count = meanings.most_common(1)[0]
        if len(cluster.columns) > 1:
            record = {"name": cluster.name, "columns": list_columns(cluster), "probability": cluster.score}
            records.append(record | {"meaning": meaning, "agree": f"{count} of {len(cluster.columns)}"})
    tour.show(
        "Columns that mean the same",
        "Columns of all catalogues, put together by what their headers and values say. The meaning is the simulator's; "
        "the last column says how many of the group's columns have it.",
        "Groups of matched columns.",
        ("name", "columns", ReportColumn("probability", bar=True, digits=2), "meaning", "agree"),
        records,
    )
    score_matches(tour, found, "columns that mean the same (F1 of pairs)")


def score_matches(tour: Tour, found: Matches, task: str) -> float:
    """Note how well columns were matched, by pairs of them, and return it."""
    from navi.corpus import canonicalise

    cluster_of = {(e.table, e.header): number for number, each in enumerate(found.clusters) for e in each.columns}
    known = [column for column in cluster_of if tour.truth.concept_of(*column)]
    truth = pair_columns(known, lambda column: tour.truth.concept_of(*column))
    share = measure_f1(pair_columns(known, cluster_of.__getitem__), truth)
    guess = measure_f1(pair_columns(known, lambda column: canonicalise(column[1])), truth)
    tour.add_score(task, navi=share, guess=guess, guess_name="equal headers")
    return share


def pair_columns(
    columns: Iterable[ColumnPlace], group: Callable[[ColumnPlace], Hashable]
) -> set[tuple[ColumnPlace, ColumnPlace]]:
    """Return the pairs of columns of different tables that are in one group."""
    pairs = combinations(sorted(columns), 2)
    return {(one, other) for one, other in pairs if one[0] != other[0] and group(one) == group(other)}


def measure_f1(found: Set[Hashable], truth: Set[Hashable]) -> float:
    """Return the harmonic mean of precision and recall.

    >>> measure_f1({"a", "b"}, {"a", "c"})
    0.5
    """
    return 2 * len(found & truth) / max(len(found) + len(truth), 1)


def name_columns(tour: Tour) -> None:
    """Hide the headers of a catalogue that no training saw, and name its columns."""
    from navi.corpus import canonicalise
    from navi.report import ReportColumn

    table, truth = tour.tables[tour.unseen_tables[0]], tour.truth
    learned = Counter(meaning for (name, _), meaning in truth.concepts.items() if name not in tour.unseen_tables)
    headers = [header for header in table.headers if truth.concept_of(table.name, header) in learned]
    with show_progress(tour.screen) as meter:
        meter.wait(f"Naming the columns of {table.name}")
        found = tour.model.name_columns(table, headers)
    meanings = {(canonicalise(header), meaning) for (_, header), meaning in truth.concepts.items()}
    records = []
    for names in found:
        record: dict[str, Any] = {"hidden header": names.column, "values": list_values(table, names.column)}
        record |= {"right": False, "next": ", ".join(f"{e.header} {e.probability:.2f}" for e in names.candidates[1:4])}
        for best in names.candidates[:1]:
            right = (canonicalise(best.header), truth.concept_of(table.name, names.column)) in meanings
            record |= {"proposed": best.header, "probability": best.probability, "right": right}
        records.append(record)
    tour.show(
        "Unnamed columns, named",
        f"{table.name} was not in the training. Its headers were hidden, and names proposed from the values alone. "
        "A name is right if it means the same.",
        "Columns with the names proposed for them.",
        ("hidden header", "values", "proposed", ReportColumn("probability", bar=True, digits=2), "right", "next"),
        records,
    )
    usual = learned.most_common(1)[0][0]
    tour.add_score(
        f"columns of {table.name}, unseen, named",
        navi=sum(record["right"] for record in records) / max(len(records), 1),
        guess=sum(truth.concept_of(table.name, header) == usual for header in headers) / max(len(records), 1),
        guess_name="most frequent meaning",
    )


def list_values(table: Table, header: str) -> str:
    """Return some of a column's values in one line."""
    values = table.text[header].drop_null().unique().slice(0, 3).to_pylist()
    return shorten(", ".join(shorten(value, 30) for value in values), 70)


def fill_gaps(tour: Tour) -> None:
    """Fill the gaps of the catalogue that has most, and compare with what they held."""
    from navi.report import ReportColumn, reliability_chart

    name = Counter(table for table, _, _ in tour.truth.gaps).most_common(1)[0][0]
    frame, first = tour.tables[name].text.slice(0, ROWS_FILLED), tour.truth.first_place[name]
    with show_progress(tour.screen) as meter:
        meter.wait(f"Reading {name}")
        report = follow_share(meter, f"Filling {name}", "cells")
        result = tour.model.impute(frame, confidence=CONFIDENCE, progress=report)
    counted = {header: Counter(frame[header].drop_null().to_pylist()) for header in frame.column_names}
    usual = {header: max(counts, key=counts.__getitem__, default=None) for header, counts in counted.items()}
    records, guesses = [], []
    for cell in sorted(result.cells.to_pylist(), key=lambda cell: -cell["probability"]):
        row = int(tour.tables[name].row_number[cell["row"] - 1]) - first
        held = tour.truth.gaps.get((name, row, cell["column"]))
        if cell["value"] is not None and held is not None:
            records.append({"column": cell["column"], "filled with": cell["value"], "truth": held})
            records[-1] |= {"right": is_same(cell["value"], held), "confidence": cell["probability"]}
            guesses.append(is_same(usual[cell["column"]], held))
    tour.screen.summarise(
        f"{name}, {count_things(frame.num_rows, 'row')}: {count_things(result.cells.num_rows, 'empty cell')}, "
        f"{format_count(result.num_filled)} filled with a confidence of {CONFIDENCE} or more."
    )
    right = [record["right"] for record in records]
    charts = []
    if len(records) >= FEWEST_FOR_RELIABILITY:
        caption = "Fills are right about as often as they are sure where the line is near the diagonal."
        outcomes = {"NAVI": ([record["confidence"] for record in records], right)}
        charts.append(reliability_chart(caption, outcomes, bins=5))
    tour.show(
        "Empty cells, filled",
        "Cells that the simulator left empty. It knows what they would have held.",
        f"Empty cells of {name} with what they were filled with.",
        ("column", "filled with", "truth", "right", ReportColumn("confidence", bar=True, digits=2)),
        records[:MOST_FILLS],
        *charts,
        most=10,
    )
    if records:
        shares = {"navi": sum(right) / len(right), "guess": sum(guesses) / len(guesses)}
        tour.add_score("empty cells that it filled", **shares, guess_name="column's most frequent value")


def is_same(value: str | None, truth: str) -> bool:
    """Return whether two texts are equal but for case and spaces."""
    return value is not None and " ".join(value.casefold().split()) == " ".join(truth.casefold().split())


def find_same_films(tour: Tour) -> None:
    """Pair the rows of the two catalogues that share most films, and compare with the truth."""
    from navi.report import ReportColumn

    names = choose_tables(tour)
    left, right = (tour.tables[name] for name in names)
    with show_progress(tour.screen) as meter:
        meter.wait(f"Comparing {left.name} and {right.name}")
        found = tour.model.link([left, right], one_to_one=True)
    rows = zip(found.left_row.tolist(), found.right_row.tolist(), found.probability.tolist(), strict=True)
    truth, pairs, records = set(tour.truth.shared_rows(*names)), set(), []
    for one, other, probability in rows:
        pair = one - tour.truth.first_place[left.name], other - tour.truth.first_place[right.name]
        pairs.add(pair)
        cells = {table.name: show_cells(list_cells(table, row), ": ") for table, row in ((left, one), (right, other))}
        records.append(cells | {"right": pair in truth, "probability": probability})
    tour.screen.summarise(
        f"{left.name} and {right.name} share {count_things(len(truth), 'film')}; "
        f"{count_things(len(pairs), 'pair')} found."
    )
    tour.show(
        "The same film in two catalogues",
        "Rows of two catalogues that share no schema, linked by what their columns have in common.",
        "Pairs of rows, the surest first.",
        (*names, "right", ReportColumn("probability", bar=True, digits=2)),
        records[:MOST_PAIRS],
        most=4,
    )
    tour.add_score(
        f"rows of {left.name} and {right.name} about one film (F1)",
        navi=measure_f1(pairs, truth),
        guess=measure_f1(pair_titles(tour, left, right), truth),
        guess_name="equal titles",
    )


def choose_tables(tour: Tour) -> tuple[str, str]:
    """Return the two catalogues of moderate size that share most films; of all, if there are no two such."""
    films = tour.truth.films
    moderate = [name for name, rows in films.items() if len(rows) <= ROWS_PAIRED]
    names = moderate if len(moderate) > 1 else list(films)
    return max(combinations(names, 2), key=lambda pair: len(tour.truth.shared_rows(*pair)))


def pair_titles(tour: Tour, left: Table, right: Table) -> set[tuple[int, int]]:
    """Return the pairs of rows, as the truth counts them, whose titles are the same text."""
    places: list[dict[str, list[int]]] = [{}, {}]
    for table, place in zip((left, right), places, strict=True):
        meanings = tour.truth.concepts.items()
        header = next(each for (name, each), meaning in meanings if (name, meaning) == (table.name, "title"))
        for number, title in zip(table.row_number.tolist(), table.text[header].to_pylist(), strict=True):
            if title is not None:
                place.setdefault(title.casefold(), []).append(number - tour.truth.first_place[table.name])
    return {(one, other) for title, rows in places[0].items() for one in rows for other in places[1].get(title, [])}


def map_segments(tour: Tour) -> None:
    """Place segments of the largest catalogues in a plane, as many of each role where there are so many."""
    import numpy as np

    from navi.report import Section, place_points, scatter_map

    largest = sorted(tour.tables.values(), key=lambda table: -table.num_rows)[:TABLES_MAPPED]
    frames = {table.name: table.text.slice(0, ROWS_MAPPED) for table in largest}
    with show_progress(tour.screen) as meter:
        meter.wait("Placing segments")
        vectors, index = tour.model.embed_segments(frames, return_index=True)
        segments, rng = index.to_pylist(), np.random.default_rng(tour.seed)
        role = np.array([segment["role"] for segment in segments])
        share = SEGMENTS_MAPPED // 3
        roles = [rng.permutation(np.flatnonzero(role == each))[:share] for each in ("low", "mid", "high")]
        chosen = np.concatenate(roles)
        points = place_points(np.asarray(vectors)[chosen], tour.seed)
    labels: dict[str, list[str]] = {
        name: [segments[place][name] for place in chosen] for name in ("table", "header", "role")
    }
    labels["value"] = [
        str(frames[each["table"]][each["header"]][each["row"] - 1]) for each in (segments[p] for p in chosen)
    ]
    chart = scatter_map(
        f"Segments of {len(frames)} catalogues, coloured by the role of their column.",
        points.tolist(),
        labels,
        colour="role",
        note="Placed by t-SNE: near means alike, far means little. Point at a segment to read it.",
    )
    text = (
        "A segment is a header with its value. Columns of few values (low) gather by what they mean, across "
        "catalogues; columns where all values differ (high) spread out, for they tell rows apart."
    )
    tour.sections.append(Section("The map of segments", text, (chart,)))
    tour.screen.summarise(f"{count_things(len(chosen), 'segment')} placed; the page shows them.")
