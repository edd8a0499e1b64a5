"""`navi demo`: the whole way on tables it makes itself, each answer beside the truth, in the terminal and on a page."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, compress
from pathlib import Path
from statistics import mean
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from typer import Option

from navi.backbones import BASE_MODEL
from navi.cli.app import Run, verb
from navi.cli.ask import list_cells, list_columns, show_cells
from navi.cli.console import (
    Screen,
    count_things,
    format_count,
    format_duration,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.cli.learn import describe_corpus, describe_training
from navi.errors import ConfigError
from navi.settings import IMPUTE_CONFIDENCE

if TYPE_CHECKING:
    from rich.table import Table as Shown

    from navi.corpus import Corpus
    from navi.report import ReportTable, Section
    from navi.simulator import Truth
    from navi.tables import Table
    from navi.verbs import Navi

TRUTH_FILE = "truth.json"
"""Marks a folder as the demo's own, and holds what the simulator knows."""
WORLD: dict[str, Any] = {"width": 0.5}
"""Catalogues of half the usual columns: a row costs half as much, and a few minutes teach twice as many."""
ROWS_FILLED, ROWS_PAIRED = 150, 500
"""Rows of a table that are filled, and that a table to be paired may have, to keep the demo short."""
ROWS_SHOWN, LINES_SHOWN = 200, 10
"""Rows of an answer that the page shows, and the terminal."""
LEAD = """\
Film catalogues that a simulator made, no two with the same schema: headers, formats and order differ, cells are
missing. NAVI learned one encoder from them, without any label, and was then asked. The simulator knows the truth, so
every answer stands beside it and beside what a simple guess reaches."""
NEXT = """\
navi match FOLDER
navi pretrain FOLDER -o model
navi match --model model FOLDER"""
"""What to type for tables of one's own."""


class Score(NamedTuple):
    """The share of a task that NAVI got right, beside what a simple guess reaches."""

    task: str
    navi: float
    guess: float
    guess_name: str


@dataclass(kw_only=True)
class Demo:
    """One run: where it goes, what it has made, and what came out."""

    folder: Path
    screen: Screen
    seed: int = 0
    minutes: float = 2.0
    title: str = ""
    """The step that it takes."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many of what there is: tables, rows, headers …"""
    scores: list[Score] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    """What the page shows."""
    truth: Truth = field(init=False)
    corpus: Corpus = field(init=False)
    model: Navi = field(init=False)
    tables: dict[str, Table] = field(init=False)

    @property
    def unseen_tables(self) -> list[str]:
        """The tables that were kept out of training, to be asked about afterwards."""
        return [table["name"] for table in self.corpus.manifest["tables"] if table["splits"]["unseen"]]

    def show(self, text: str, caption: str, names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> None:
        """Add a section with a table of records to the page, and show the first of them in the terminal."""
        from navi.report import ReportColumn, ReportTable, Section

        columns = [ReportColumn(name, bar=True, digits=2) if name == "probability" else name for name in names]
        table = ReportTable(caption, columns, [[record.get(name) for name in names] for record in records[:ROWS_SHOWN]])
        self.sections.append(Section(self.title, text, (table,)))
        self.screen.summarise(render_table(table, LINES_SHOWN))


@verb("Start", "navi demo", "navi demo --folder films --seed 7 --minutes 5", options="as_json", needs_arguments=False)
def demo(
    run: Run,
    folder: Path = Option(Path("navi-demo"), help="Folder for everything it makes."),
    seed: int = Option(0, help="Another seed makes another world."),
    minutes: float = Option(2.0, min=0.01, help="Time for pretraining, about."),
) -> None:
    """Show everything on film catalogues that it makes itself, in minutes on a laptop."""
    screen, started = run.screen, monotonic()
    tour = Demo(folder=folder, screen=screen, seed=seed, minutes=minutes)
    check_folder(folder)
    for number, (tour.title, take_step) in enumerate(STEPS.items(), start=1):
        screen.summarise("", make_heading(f"{number}. {tour.title}"))
        take_step(tour)
    seconds = monotonic() - started
    screen.answer_json({"folder": folder, "seconds": seconds, "scores": [score._asdict() for score in tour.scores]})
    screen.answer("", make_heading("What came out"), render_table(tabulate_scores(tour)))
    screen.summarise(
        f"{format_duration(seconds)} in all; tables, corpus and model are in {folder}.",
        "Next, the same with a folder of your own tables:",
        *(f"  {line}" for line in NEXT.splitlines()),
        f"or ask this model:  navi match --model {quote(folder / 'model')} {quote(folder / 'tables')}",
    )
    # Who started it through `make` has not activated anything.
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("navi") is None and activate.is_file():
        screen.summarise(f"`navi` is not on your path yet:  source {quote(activate)}")


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file. Give another --folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / TRUTH_FILE).is_file():
        raise ConfigError(f"{folder} holds files that no demo put there. Give a new or an empty --folder.")


def make_catalogues(run: Demo) -> None:
    """Write the simulated catalogues, and their truth beside them."""
    from navi.simulator import SimulatorConfig, write_catalogues

    folder = run.folder / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    run.truth = truth = write_catalogues(folder, SimulatorConfig(**WORLD, seed=run.seed))
    truth.save(run.folder / TRUTH_FILE)
    run.counts = {
        "tables": len(truth.films),
        "rows": sum(map(len, truth.films.values())),
        "headers": len({header for _, header in truth.concepts}),
        "meanings": len(set(truth.concepts.values())),
        "empty cells": len(truth.gaps),
    }
    counted = ", ".join(f"{format_count(count)} {thing}" for thing, count in run.counts.items())
    run.screen.summarise(f"In {folder}: {counted}.")


def ask_base(run: Demo) -> None:
    """Match the columns with the model that comes along, which has never seen these catalogues."""
    from navi.tables import read_tables
    from navi.verbs import Navi

    run.tables, run.model = read_tables([run.folder / "tables"]), Navi.from_pretrained()
    match_columns(run)


def prepare_corpus(run: Demo) -> None:
    """Make a corpus of the tables, two of them kept out of training."""
    from navi.corpus import PrepareConfig, prepare

    started = monotonic()
    config = PrepareConfig(seed=run.seed, backbone=BASE_MODEL, unseen_tables=2)
    with run.screen.follow() as meter:
        folders = [run.folder / "tables"], run.folder / "corpus"
        run.corpus = prepare(*folders, config, meter.show_preparing, overwrite=True)
    run.screen.summarise(*describe_corpus(run.corpus, monotonic() - started))
    run.screen.summarise(f"Kept out of training, to be asked about later: {', '.join(run.unseen_tables)}.")


def learn(run: Demo) -> None:
    """Pretrain for about the minutes given, from the base model on, and score what validation says."""
    from navi.training import PretrainConfig, make_preset, pretrain
    from navi.training.export import MEASURES
    from navi.verbs import Navi

    wanted = {"backbone": BASE_MODEL, "training": {"seed": run.seed, "minutes": run.minutes}}
    config = PretrainConfig.from_dict(wanted, base=make_preset("laptop"))
    with run.screen.follow() as meter:
        meter.wait("Measuring the model as it is")
        result = pretrain(run.corpus, run.folder / "model", config, overwrite=True, progress=meter.show_training)
    run.screen.summarise(*describe_training(result))
    run.model = Navi.from_pretrained(run.folder / "model")
    first, last = result.validation[0], result.validation[-1]
    for name, (label, guess, _) in MEASURES.items():
        if guess:
            run.scores.append(Score(label, last[name], first[guess], guess.replace("_", " ")))


def match_columns(run: Demo) -> None:
    """Match the columns of all catalogues and compare with what they mean, pair by pair of different tables."""
    from navi.corpus import canonicalise

    with run.screen.follow() as meter:
        meter.wait(f"Comparing the columns of {count_things(len(run.tables), 'table')}")
        found = run.model.match(run.tables)
    cluster_of, records = dict[tuple[str, str], int](), []
    for number, cluster in enumerate(found.clusters):
        cluster_of |= {(each.table, each.header): number for each in cluster.columns}
        meanings = Counter(run.truth.concept_of(each.table, each.header) for each in cluster.columns)
        meaning, count = meanings.most_common(1)[0]
        if len(cluster.columns) > 1:
            record = {"name": cluster.name, "columns": list_columns(cluster), "probability": cluster.score}
            records.append(record | {"meaning": meaning, "agree": f"{count} of {len(cluster.columns)}"})
    run.show(
        "Columns of all catalogues, put together by what their headers and values say. The meaning is the simulator's; "
        "the last column says how many of the group's columns have it.",
        "Groups of matched columns.",
        ("name", "columns", "probability", "meaning", "agree"),
        records,
    )
    known = sorted(column for column in cluster_of if run.truth.concept_of(*column))

    def pair(group: Callable[[tuple[str, str]], Hashable]) -> set[Hashable]:
        pairs = combinations(known, 2)
        return {(one, other) for one, other in pairs if one[0] != other[0] and group(one) == group(other)}

    truth = pair(lambda column: run.truth.concept_of(*column))
    share = measure_f1(pair(cluster_of.__getitem__), truth)
    guess = measure_f1(pair(lambda column: canonicalise(column[1])), truth)
    when = "" if run.scores else ", before learning"
    run.scores.append(Score(f"columns that mean the same{when} (F1 of pairs)", share, guess, "equal headers"))


def measure_f1(found: Set[Hashable], truth: Set[Hashable]) -> float:
    """Return the harmonic mean of precision and recall.

    >>> measure_f1({"a", "b"}, {"a", "c"})
    0.5
    """
    return 2 * len(found & truth) / max(len(found) + len(truth), 1)


def name_columns(run: Demo) -> None:
    """Hide the headers of a catalogue that no training saw, and name its columns."""
    from navi.corpus import canonicalise

    table, truth = run.tables[run.unseen_tables[0]], run.truth
    learned = Counter(meaning for (name, _), meaning in truth.concepts.items() if name not in run.unseen_tables)
    headers = [header for header in table.headers if truth.concept_of(table.name, header) in learned]
    with run.screen.follow() as meter:
        meter.wait(f"Naming the columns of {table.name}")
        found = run.model.name_columns(table, headers)
    meanings = {(canonicalise(header), meaning) for (_, header), meaning in truth.concepts.items()}
    records = []
    for names in found:
        values = table.text[names.column].drop_null().unique().slice(0, 3).to_pylist()
        shown = shorten(", ".join(shorten(value, 30) for value in values), 70)
        record: dict[str, Any] = {"hidden header": names.column, "values": shown, "right": False}
        record["next"] = ", ".join(f"{each.header} {each.probability:.2f}" for each in names.candidates[1:4])
        for best in names.candidates[:1]:
            right = (canonicalise(best.header), truth.concept_of(table.name, names.column)) in meanings
            record |= {"proposed": best.header, "probability": best.probability, "right": right}
        records.append(record)
    run.show(
        f"{table.name} was not in the training. Its headers were hidden, and names proposed from the values alone. "
        "A name is right if it means the same.",
        "Columns with the names proposed for them.",
        ("hidden header", "values", "proposed", "probability", "right", "next"),
        records,
    )
    usual = learned.most_common(1)[0][0]
    right = mean(record["right"] for record in records)
    guess = mean(truth.concept_of(table.name, header) == usual for header in headers)
    run.scores.append(Score(f"columns of {table.name}, unseen, named", right, guess, "most frequent meaning"))


def fill_gaps(run: Demo) -> None:
    """Fill the gaps of the catalogue that has most, and compare with what they held."""
    name = Counter(table for table, _, _ in run.truth.gaps).most_common(1)[0][0]
    frame, first = run.tables[name].text.slice(0, ROWS_FILLED), run.truth.first_place[name]
    with run.screen.follow() as meter:
        report = meter.count_share(f"Filling {name}", "cells")
        result = run.model.impute(frame, progress=report)
    counted = {header: Counter(frame[header].drop_null().to_pylist()) for header in frame.column_names}
    usual = {header: max(counts, key=counts.__getitem__, default="") for header, counts in counted.items()}
    records, guesses = [], []
    for cell in sorted(result.cells.to_pylist(), key=lambda cell: -cell["probability"]):
        row = int(run.tables[name].row_number[cell["row"] - 1]) - first
        held = run.truth.gaps.get((name, row, cell["column"]))
        if cell["value"] is not None and held is not None:
            filled = {"column": cell["column"], "filled with": cell["value"], "truth": held}
            records.append(filled | {"right": is_same(cell["value"], held), "probability": cell["probability"]})
            guesses.append(is_same(usual[cell["column"]], held))
    run.screen.summarise(
        f"{name}, {count_things(frame.num_rows, 'row')}: {count_things(result.cells.num_rows, 'empty cell')}, "
        f"{format_count(result.num_filled)} filled with a probability of {IMPUTE_CONFIDENCE} or more."
    )
    run.show(
        "Cells that the simulator left empty. It knows what they would have held.",
        f"Empty cells of {name} with what they were filled with.",
        ("column", "filled with", "truth", "right", "probability"),
        records,
    )
    if records:
        right, guess = mean(record["right"] for record in records), mean(guesses)
        run.scores.append(Score("empty cells that it filled", right, guess, "column's most frequent value"))


def is_same(value: str, truth: str) -> bool:
    """Return whether two texts are equal but for case and spaces."""
    return value.casefold().split() == truth.casefold().split()


def find_same_films(run: Demo) -> None:
    """Pair the rows of the two catalogues, of moderate size if there are such, that share most films."""
    moderate = [name for name, rows in run.truth.films.items() if len(rows) <= ROWS_PAIRED]
    pairs_of_tables = combinations(moderate if len(moderate) > 1 else run.truth.films, 2)
    names = max(pairs_of_tables, key=lambda pair: len(run.truth.shared_rows(*pair)))
    left, right = (run.tables[name] for name in names)
    with run.screen.follow() as meter:
        meter.wait(f"Comparing {left.name} and {right.name}")
        found = run.model.link([left, right], one_to_one=True)
    rows = zip(found.left_row.tolist(), found.right_row.tolist(), found.probability.tolist(), strict=True)
    truth, pairs, records = set(run.truth.shared_rows(*names)), set(), []
    for one, other, probability in rows:
        pair = one - run.truth.first_place[left.name], other - run.truth.first_place[right.name]
        pairs.add(pair)
        cells = {table.name: show_cells(list_cells(table, row), ": ") for table, row in ((left, one), (right, other))}
        records.append(cells | {"right": pair in truth, "probability": probability})
    counted = f"{count_things(len(truth), 'film')}; {count_things(len(pairs), 'pair')} found"
    run.screen.summarise(f"{left.name} and {right.name} share {counted}.")
    run.show(
        "Rows of two catalogues that share no schema, linked by what their columns have in common.",
        "Pairs of rows, the surest first.",
        (*names, "right", "probability"),
        records,
    )
    task, guess = f"rows of {left.name} and {right.name} about one film (F1)", pair_titles(run, left, right)
    run.scores.append(Score(task, measure_f1(pairs, truth), measure_f1(guess, truth), "equal titles"))


def pair_titles(run: Demo, left: Table, right: Table) -> set[tuple[int, int]]:
    """Return the pairs of rows, as the truth counts them, whose titles are the same text."""
    places: list[dict[str, list[int]]] = [{}, {}]
    for table, place in zip((left, right), places, strict=True):
        meanings = run.truth.concepts.items()
        header = next(each for (name, each), meaning in meanings if (name, meaning) == (table.name, "title"))
        for number, title in zip(table.row_number.tolist(), table.text[header].to_pylist(), strict=True):
            if title is not None:
                place.setdefault(title.casefold(), []).append(number - run.truth.first_place[table.name])
    return {(one, other) for title, rows in places[0].items() for one in rows for other in places[1].get(title, [])}


def write_page(run: Demo) -> None:
    """Write the page: the scores, what each step has shown, and what to type next."""
    from navi.report import Code, Page, Section, Tiles, write_report

    tiles = Tiles({label: f"{count:,}" for label, count in run.counts.items()})
    text = "Each task is scored against the simulator's truth, and so is a simple guess that needs no model."
    scores = Section("How well it went", text, (tiles, tabulate_scores(run)))
    text = "The same with a folder of your own tables: CSV, JSON lines, Parquet and others, compressed or not."
    page = Page("What NAVI found", LEAD, (scores, *run.sections, Section("Your own tables", text, (Code(NEXT),))))
    run.screen.summarise(f"Open {write_report(page, run.folder)} in a browser.")


STEPS: dict[str, Callable[[Demo], None]] = {
    "Film catalogues, no two with the same schema": make_catalogues,
    "Columns that mean the same, by the model that comes along": ask_base,
    "One corpus of segments": prepare_corpus,
    "Learning, without any label": learn,
    "Columns that mean the same, after learning": match_columns,
    "Unnamed columns, named": name_columns,
    "Empty cells, filled": fill_gaps,
    "The same film in two catalogues": find_same_films,
    "A page of all this": write_page,
}
"""What the demo does, in order: each step says what it does, does it with the library, and shows what came out."""


def tabulate_scores(run: Demo) -> ReportTable:
    """Return all scores so far, one a line."""
    from navi.report import ReportColumn, ReportTable

    navi, guess = (ReportColumn(name, percent=True, bar=True) for name in ("NAVI", "guess"))
    columns = ("task", navi, guess, "what the guess is")
    return ReportTable("The scores, and what the simple guess is.", columns, run.scores)


def render_table(table: ReportTable, most: int | None = None) -> Shown:
    """Return a page's table for the terminal, at most so many of its rows."""
    from navi.report import show_table

    shown = show_table(table)
    names = [column.name for column in shown["columns"]]
    rows = [[cell.text for cell in row] for row in shown["rows"][:most]]
    return make_table(names, rows, right=list(compress(names, shown["numeric"])))
