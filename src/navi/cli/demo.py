"""`navi demo`: the whole way on tables it makes itself, each answer beside the truth, in the terminal and on a page."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from shutil import which
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from navi.backbones import BASE_MODEL
from navi.cli.ask_columns import list_columns
from navi.cli.console import (
    Screen,
    count_things,
    format_count,
    format_duration,
    format_share,
    make_heading,
    make_table,
    quote,
)
from navi.cli.options import Json, Quiet
from navi.cli.prepare import describe_table, list_tables, summarise_corpus
from navi.cli.pretrain import MEASURES, summarise_training
from navi.cli.progress import follow_preparing, follow_training, show_progress
from navi.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from navi.corpus import Corpus
    from navi.report import Item, Page, ReportColumn, ReportTable, Section
    from navi.simulator import Truth
    from navi.tables import Table
    from navi.verbs import Navi

EXAMPLES = {"demo": ("navi demo", "navi demo --folder films --seed 7 --minutes 5")}
TRUTH_FILE = "truth.json"
"""Marks a folder as the demo's own, and holds what the simulator knows."""
WIDTH = 0.5
"""Catalogues of half the usual columns: a row costs half as much, and a few minutes teach twice as many."""
MANY_CATALOGUES = 6
"""Tables from which two can be kept out of training."""
MOST_GROUPS = 12
"""Groups of columns that the first answer shows."""
LEAD = """\
Film catalogues that a simulator made, no two with the same schema: headers, formats and order differ, cells are
missing. NAVI learned one encoder from them, without any label, and was then asked. The simulator knows the truth, so
every answer stands beside it and beside what a simple guess reaches."""
NEXT = """\
navi inspect FOLDER
navi prepare FOLDER -o corpus
navi pretrain corpus -o model
navi match --model model FOLDER"""
"""What to type for tables of one's own."""


class Score(NamedTuple):
    """The share of a task that NAVI got right, beside what a simple guess reaches."""

    task: str
    navi: float
    guess: float
    guess_name: str


@dataclass(kw_only=True)
class Tour:
    """One run of the demo: where it goes, what it has made, and what came out."""

    folder: Path
    """Where everything is kept."""
    screen: Screen
    """Where everything is shown."""
    seed: int = 0
    """Decides the tables, the splits and the training."""
    minutes: float = 2.0
    """Time for pretraining, about."""
    num_catalogues: int = 14
    """Tables that are made."""
    num_rows: int | None = None
    """Rows of all tables; None for 400 each on average."""
    backbone: str = BASE_MODEL
    """What training starts from."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many of what there is: tables, rows, headers …"""
    scores: list[Score] = field(default_factory=list)
    """What the steps found."""
    sections: list[Section] = field(default_factory=list)
    """What the page shows of it."""

    truth: Truth = field(init=False)
    """What the simulator knows of the catalogues."""
    corpus: Corpus = field(init=False)
    """The prepared corpus."""
    model: Navi = field(init=False)
    """The trained model, ready to be asked."""
    tables: dict[str, Table] = field(init=False)
    """The catalogues, read."""

    @property
    def unseen_tables(self) -> list[str]:
        """The tables that were kept out of training, to be asked about afterwards."""
        return [table["name"] for table in self.corpus.manifest["tables"] if table["splits"]["unseen"]]

    def show(
        self,
        title: str,
        text: str,
        caption: str,
        columns: Sequence[ReportColumn | str],
        records: Sequence[Mapping[str, Any]],
        *more: Item,
        most: int | None = None,
    ) -> None:
        """Add a section with a table of records to the page, and show some of it in the terminal: one in so many."""
        from navi.report import ReportTable, Section

        names = [column if isinstance(column, str) else column.name for column in columns]
        table = ReportTable(caption, columns, [[record.get(name) for name in names] for record in records])
        self.sections.append(Section(title, text, (table, *more)))
        self.screen.summarise(render_table(table, most))

    def add_score(self, task: str, *, navi: float, guess: float, guess_name: str) -> None:
        """Note how well a task went."""
        self.scores.append(Score(task, navi, guess, guess_name))


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path("navi-demo"),
    seed: Annotated[int, typer.Option(help="Another seed makes another world.")] = 0,
    minutes: Annotated[float, typer.Option(min=0.01, help="Time for pretraining, about.")] = 2.0,
    catalogues: Annotated[int, typer.Option(min=2, help="Tables to make.", hidden=True)] = 14,
    rows: Annotated[int | None, typer.Option(min=2, help="Rows of all tables.", hidden=True)] = None,
    backbone: Annotated[str, typer.Option(help="What to start from.", hidden=True)] = BASE_MODEL,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go the whole way on tables it makes itself, in minutes on a laptop."""
    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    tour = Tour(
        folder=folder,
        screen=screen,
        seed=seed,
        minutes=minutes,
        num_catalogues=catalogues,
        num_rows=rows,
        backbone=backbone,
    )
    check_folder(folder)
    for number, (title, take) in enumerate(list_steps(), start=1):
        screen.summarise("", make_heading(f"{number}. {title}"))
        take(tour)
    seconds = monotonic() - started
    screen.answer_json({"folder": folder, "seconds": seconds, "scores": [score._asdict() for score in tour.scores]})
    screen.answer("", make_heading("What came out"), render_table(tabulate_scores(tour)))
    screen.summarise(
        f"{format_duration(seconds)} in all; tables, corpus and model are in {folder}.",
        "Next, the same with a folder of your own tables:",
        *(f"  {line}" for line in NEXT.splitlines()[:3]),
        f"or ask this model:  navi match --model {quote(folder / 'model')} {quote(folder / 'tables')}",
        *tell_where_navi_is(),
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file. Give another --folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / TRUTH_FILE).is_file():
        raise ConfigError(f"{folder} holds files that no demo put there. Give a new or an empty --folder.")


def list_steps() -> list[tuple[str, Callable[[Tour], None]]]:
    """Return the steps in order: each says what it does, does it with the library, and shows what came out."""
    from navi.cli import demo_steps as steps

    return [
        ("Film catalogues, no two with the same schema", make_catalogues),
        ("Columns that mean the same, by the model that comes along", ask_base),
        ("One corpus of segments", prepare_corpus),
        ("What is in it", show_corpus),
        ("Learning, without any label", learn),
        ("Columns that mean the same, after learning", steps.match_columns),
        ("Unnamed columns, named", steps.name_columns),
        ("Empty cells, filled", steps.fill_gaps),
        ("The same film in two catalogues", steps.find_same_films),
        ("The map of segments", steps.map_segments),
        ("A page of all this", write_page),
    ]


def make_catalogues(tour: Tour) -> None:
    """Write the simulated catalogues, and their truth beside them."""
    from navi.simulator import SimulatorConfig, write_catalogues

    folder = tour.folder / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    config = SimulatorConfig(num_rows=tour.num_rows, num_catalogues=tour.num_catalogues, width=WIDTH, seed=tour.seed)
    tour.truth = truth = write_catalogues(folder, config)
    truth.save(tour.folder / TRUTH_FILE)
    tour.counts = {
        "tables": len(truth.films),
        "rows": sum(map(len, truth.films.values())),
        "headers": len({header for _, header in truth.concepts}),
        "meanings": len(set(truth.concepts.values())),
        "empty cells": len(truth.gaps),
    }
    counted = ", ".join(f"{format_count(count)} {thing}" for thing, count in tour.counts.items())
    tour.screen.summarise(f"In {folder}: {counted}.")


def prepare_corpus(tour: Tour) -> None:
    """Make a corpus of the tables, some of them kept out of training."""
    from navi.corpus import PrepareConfig, prepare

    num_unseen, started = 2 if tour.num_catalogues >= MANY_CATALOGUES else 1, monotonic()
    config = PrepareConfig(seed=tour.seed, backbone=tour.backbone, unseen_tables=num_unseen)
    folders = [tour.folder / "tables"], tour.folder / "corpus"
    with show_progress(tour.screen) as meter:
        tour.corpus = prepare(*folders, config, follow_preparing(meter), overwrite=True)
    tour.screen.summarise(*summarise_corpus(tour.corpus, monotonic() - started))
    tour.screen.summarise(f"Kept out of training, to be asked about later: {', '.join(tour.unseen_tables)}.")


def show_corpus(tour: Tour) -> None:
    """Show the tables, and the columns of the first."""
    from navi.corpus import inspect_corpus

    found = inspect_corpus(tour.corpus)
    tour.screen.summarise(list_tables(found), *describe_table(found["tables"][0], tour.screen.results.width))


def ask_base(tour: Tour) -> None:
    """Match the columns with the model that comes along, which has never seen these catalogues."""
    from navi.cli.demo_steps import score_matches
    from navi.tables import read_tables
    from navi.verbs import Navi

    tour.tables = read_tables([tour.folder / "tables"])
    with show_progress(tour.screen) as meter:
        meter.wait(f"Comparing the columns of {count_things(len(tour.tables), 'table')}")
        found = Navi.from_pretrained().match(tour.tables)
    groups = [cluster for cluster in found.clusters if len(cluster.columns) > 1]
    columns = ("name", "columns")
    tour.screen.summarise(make_table(columns, [(group.name, list_columns(group)) for group in groups[:MOST_GROUPS]]))
    share = score_matches(tour, found, "columns that mean the same, before learning (F1 of pairs)")
    tour.screen.summarise(
        f"{count_things(len(groups), 'group')}, without a minute of training: {format_share(share)} of pairs (F1)."
    )


def learn(tour: Tour) -> None:
    """Pretrain for about the minutes given, from the base model on, and score what validation says."""
    from navi.training import PretrainConfig, make_preset, pretrain
    from navi.verbs import Navi

    wanted = {"backbone": tour.backbone, "training": {"seed": tour.seed, "minutes": tour.minutes}}
    config = PretrainConfig.from_dict(wanted, base=make_preset("laptop"))
    with show_progress(tour.screen) as meter:
        meter.wait("Measuring the model as it is")
        result = pretrain(tour.corpus, tour.folder / "model", config, overwrite=True, progress=follow_training(meter))
    tour.screen.summarise(*summarise_training(result))
    tour.model = Navi.from_pretrained(tour.folder / "model")
    first, last = result.validation[0], result.validation[-1]
    for name, (label, guess) in MEASURES.items():
        if guess is not None:
            tour.add_score(label, navi=last[name], guess=first[guess], guess_name=guess.replace("_", " "))


def write_page(tour: Tour) -> None:
    """Write the page; where the packages that draw it are missing, what it is made of."""
    from navi.report import write_report

    try:
        tour.screen.summarise(f"Open {write_report(build_page(tour), tour.folder)} in a browser.")
    except MissingExtraError as error:
        tour.screen.summarise(f"{error} Then: navi report {tour.folder}")


def build_page(tour: Tour) -> Page:
    """Return the page: the scores, what each step has shown, and what to type next."""
    from navi.report import Code, Page, Section, Tiles, bar_chart

    shares = {
        "NAVI": {score.task: score.navi for score in tour.scores},
        "simple guess": {score.task: score.guess for score in tour.scores},
    }
    scores = Section(
        "How well it went",
        "Each task is scored against the simulator's truth, and so is a simple guess that needs no model.",
        (
            Tiles({label: f"{count:,}" for label, count in tour.counts.items()}),
            bar_chart("Share of right answers.", shares, percent=True, quiet=("simple guess",)),
            tabulate_scores(tour),
        ),
    )
    text = "The same with a folder of your own tables: CSV, JSON lines, Parquet and others, compressed or not."
    own = Section("Your own tables", text, (Code(NEXT),))
    return Page("What NAVI found", LEAD, (scores, *tour.sections, own))


def tabulate_scores(tour: Tour) -> ReportTable:
    """Return all scores so far, one a line."""
    from navi.report import ReportColumn, ReportTable

    columns = ("task", ReportColumn("NAVI", percent=True), ReportColumn("guess", percent=True), "what the guess is")
    return ReportTable("The scores, and what the simple guess is.", columns, tour.scores)


def render_table(table: ReportTable, most: int | None = None) -> Any:
    """Return a page's table for the terminal; of many rows every so many one."""
    from navi.report import show_table

    shown = show_table(table)
    names = [column.name for column in shown["columns"]]
    step = max(1, len(shown["rows"]) // most) if most else 1
    rows = [[cell.text for cell in row] for row in shown["rows"][::step][:most]]
    return make_table(names, rows, right=list(compress(names, shown["numeric"])))


def tell_where_navi_is() -> list[str]:
    """Return how `navi` comes onto the path, for who started it through `make` and has not activated anything."""
    activate = Path(sys.prefix) / "bin" / "activate"
    if which("navi") is not None or not activate.is_file():
        return []
    return [f"`navi` is not on your path yet:  source {quote(activate)}"]
