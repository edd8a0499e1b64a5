"""Tables of the page: models are rows, measures columns, averaged over seeds, with the paper's figures beside ours.

Which measure stands where is said in `contents.toml`, what the paper reports in `paper.json`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from navi.report import Cell, Measurement, ReportColumn, ReportTable
from navi_paper.results import Record, Results

BERT, PAPER, NAVI = "bert", "navi-paper", "navi"
"""The three models that every table has."""
ABLATION_NAMES = {
    "without_attributes": "w/o CAE",
    "without_segment_masking": "w/o MSM",
    "without_alignment": "w/o ESA",
    "without_views": "w/o views",
    "random_routing": "random routing",
}
RAW, TABLE_VECTORIZER, NAVI_FE = "any/raw", "any/table_vectorizer", f"{NAVI}/navi_fe"
"""Feature pipelines; the first two need no model, so that any model's cells have them."""
MODEL_NAMES: Mapping[str, str] = {
    BERT: "BERT",
    "tapas": "TAPAS",
    "haetae": "HAETAE",
    "cm2": "CM2",
    PAPER: "NAVI (paper)",
    NAVI: "NAVI",
    "frozen": "Frozen backbone",
    "bert-extended": "BERT, extended",
    "haetae-extended": "HAETAE, extended",
    "navi-plain": "NAVI, plain",
    "navi-from_base": "NAVI from navi-base",
    "navi-paper-as_written": "NAVI (paper), its schedule",
    RAW: "Raw features",
    TABLE_VECTORIZER: "TableVectorizer",
    f"{PAPER}/navi_fe": "NAVI_FE (paper)",
    NAVI_FE: "NAVI_FE",
    f"{NAVI}-from_base/navi_fe": "NAVI_FE from navi-base",
}
MODELS = {
    "whole": (
        *("frozen", BERT, "bert-extended", "tapas", "haetae", "haetae-extended", "cm2"),
        *(PAPER, f"{PAPER}-as_written", NAVI, f"{NAVI}-plain", f"{NAVI}-from_base"),
    ),
    "ablated": tuple(f"{model}-{each}" for model in (PAPER, NAVI) for each in ABLATION_NAMES if each[0] == "w"),
    "routed": (f"{PAPER}-random_routing", f"{NAVI}-random_routing"),
}
"""Models of the paper by group, in the order of the rows."""
KNOWN = frozenset(model for group in MODELS.values() for model in group)
"""Every model that some table has a place for."""
CORPORA = ("product", "movie")
"""The paper's corpora, in its order."""
DEVIATION = "_deviation"
"""Stands behind the name of the measure that a deviation belongs to."""
ANY, QUOTED = "any", "paper"
"""Whichever model has a figure; what a column of the paper's is called."""


@dataclass(frozen=True, kw_only=True)
class MeasureColumn:
    """A measure as a column of a table; `contents.toml` says what each field means."""

    task: str
    measure: str
    name: str
    group: str = ""
    best: str | None = "highest"
    digits: int = 3
    paper: str | None = None
    loss: str | None = None
    floor: str | None = None
    pipelines: str | None = None

    def locate(self, model: str) -> tuple[str, str, str]:
        """Return the task, the model and the measure of a row of a table, whose name may be `MODEL/ROW`."""
        owner, _, row = model.partition("/")
        measure = self.measure.replace("{row}_", f"{row}_" if row else "")
        return (self.pipelines or self.task) if row else self.task, owner, measure


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """A table: models are rows, measures are columns; `contents.toml` says what each field means."""

    caption: str
    columns: tuple[MeasureColumn, ...]
    models: tuple[str, ...] = MODELS["whole"]
    paper: str | None = None
    note: str = ""
    floor: str = ""
    highlight: str = NAVI
    others: bool = True


@dataclass(frozen=True, kw_only=True)
class SectionLayout:
    """A section: some tables and some figures of the same tasks."""

    title: str
    text: str
    tables: tuple[TableLayout, ...] = ()
    figures: tuple[str, ...] = ()
    """Names that `navi_paper.page.figures` has for them."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that fill it."""
        return tuple(dict.fromkeys(column.task for table in self.tables for column in table.columns))


def _read_section(entry: Mapping[str, Any]) -> SectionLayout:
    tables = []
    for table in entry["tables"]:
        rest: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in table.items()}
        task = {"task": rest.pop("task")} if "task" in rest else {}
        columns = tuple(MeasureColumn(**{**task, **column}) for column in rest.pop("columns"))
        columns = tuple(replace(each, best=None) if each.best == "none" else each for each in columns)
        names = rest.pop("models", ("whole",))
        models = tuple(model for name in names for model in MODELS.get(name, (name,)))
        tables.append(TableLayout(**rest, columns=columns, models=models))
    text = "\n\n".join(" ".join(lines.split("\n")) for lines in entry["text"].split("\n\n"))
    figures = tuple(entry.get("figures", ()))
    return SectionLayout(title=entry["title"], text=text, tables=tuple(tables), figures=figures)


_FOLDER = Path(__file__).parent
_CONTENTS = tomllib.loads((_FOLDER / "contents.toml").read_text(encoding="utf-8"))
_PUBLISHED = json.loads((_FOLDER / "paper.json").read_text(encoding="utf-8"))
SECTIONS: Mapping[str, SectionLayout] = {name: _read_section(entry) for name, entry in _CONTENTS.items()}
"""The sections of the page, the paper's in its order."""


def find_corpus(name: str) -> str | None:
    """Return the corpus of the paper that a corpus is called after.

    >>> find_corpus("movie"), find_corpus("Product-small"), find_corpus("feeds")
    ('movie', 'product', None)
    """
    return next((corpus for corpus in CORPORA if corpus in name.lower()), None)


def find_published(table: str | None, corpus: str, model: str, measure: str | None) -> Measurement | None:
    """Return a figure of the paper; None where it has none."""
    figures = _PUBLISHED["tables"][table]["figures"] if table is not None else {}
    found = figures.get(find_corpus(corpus), {}).get(model, {}).get(measure)
    return None if found is None else Measurement(*found) if isinstance(found, list) else Measurement(found)


def name_model(model: str) -> str:
    """Return what a model is called on the page.

    >>> name_model("navi-paper-without_alignment"), name_model("navi-without_alignment")
    ('w/o ESA (paper)', 'w/o ESA')
    """
    if model in MODEL_NAMES:
        return MODEL_NAMES[model]
    for whole, ending in ((PAPER, " (paper)"), (NAVI, "")):
        ablation = model.removeprefix(f"{whole}-")
        if ablation in ABLATION_NAMES:
            return ABLATION_NAMES[ablation] + ending
    return model


class Averages:
    """Every figure of some results by corpus, task, model and measure; cells that failed have none."""

    def __init__(self, results: Results) -> None:
        self.folder, self.results = results.folder, results
        self.records = tuple(results)
        self.failed = tuple(record for record in self.records if record.error is not None)
        self.models = tuple(dict.fromkeys(record.model for record in self.records))
        self.seeds = tuple(sorted({record.seed for record in self.records}))
        found = {record.corpus for record in self.records}
        # The paper's corpora come first.
        self.corpora = (*(name for name in CORPORA if name in found), *sorted(found - set(CORPORA)))
        self._done: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            if record.error is None:
                self._done.setdefault((record.corpus, record.task, record.model), []).append(record)

    def list_records(self, corpus: str, task: str, model: str) -> list[Record]:
        """Return the finished cells of a model, one a seed."""
        return sorted(self._done.get((corpus, task, model), []), key=lambda record: record.seed)

    def list_models(self, corpus: str, task: str) -> tuple[str, ...]:
        """Return the models that have figures of a task."""
        return tuple(model for each, name, model in self._done if (each, name) == (corpus, task))

    def find(self, corpus: str, task: str, model: str, measure: str) -> Measurement | None:
        """Return a figure; None where no cell has it. The model `any` is whichever has it."""
        if model == ANY:
            numbers = (self.find(corpus, task, each, measure) for each in self.list_models(corpus, task))
            return next((number for number in numbers if number is not None), None)
        measures = [record.measures for record in self.list_records(corpus, task, model)]
        return average([each for each in measures if measure in each], measure)


def average(measures: Sequence[Mapping[str, float]], name: str) -> Measurement | None:
    """Return the mean of a measure over seeds, with the deviation over seeds and, if it has one, over runs of each.

    >>> average([{"f1": 0.5, "f1_deviation": 0.3}, {"f1": 0.7, "f1_deviation": 0.3}], "f1")
    Measurement(value=0.6, deviation=0.3316624790355399, change=None)
    """
    if not measures:
        return None
    values = [each[name] for each in measures]
    within = [each[name + DEVIATION] ** 2 for each in measures if name + DEVIATION in each]
    if not within and len(values) == 1:
        return Measurement(values[0])
    # Variances add up: that of the runs of one seed, and that of the means of the seeds.
    between = stdev(values) ** 2 if len(values) > 1 else 0.0
    return Measurement(fmean(values), ((fmean(within) if within else 0.0) + between) ** 0.5)


def find_figure(averages: Averages, column: MeasureColumn, corpus: str, model: str) -> Measurement | None:
    """Return our figure of a model, with what it lost where that is shown."""
    task, owner, measure = column.locate(model)
    number = averages.find(corpus, task, owner, measure)
    if number is None or column.loss is None:
        return number
    loss = averages.find(corpus, column.task, owner, column.loss)
    return number if loss is None else replace(number, change=-loss.value)


def make_table(averages: Averages, layout: TableLayout, corpus: str, left_out: Mapping[str, str]) -> ReportTable | None:
    """Return a table for a corpus; None if there is nothing of ours in it.

    Columns without a figure are left out, and so are models; what a model of the paper's has not here is a dash.
    """
    models = (*layout.models, *(model for model in averages.models if layout.others and model not in KNOWN))
    shown: list[tuple[ReportColumn, Mapping[str, Measurement | None], Cell]] = []
    has_ours = False
    for each in layout.columns:
        ours = {model: find_figure(averages, each, corpus, model) for model in models}
        quoted = {model: find_published(layout.paper, corpus, model, each.paper) for model in models}
        num_quoted = sum(figure is not None for figure in quoted.values())
        column = ReportColumn(each.name, each.group, each.digits, best=each.best, best_change=each.loss is not None)
        if any(ours.values()) or num_quoted:
            floor = None if each.floor is None else averages.find(corpus, each.task, ANY, each.floor)
            shown.append((column, ours, floor))
            has_ours |= any(ours.values())
        if num_quoted:
            # Under a header of its own a column need not say whose figure of what it is.
            name = QUOTED if each.group else f"{QUOTED}, {each.name}"
            # A figure that stands alone is neither best nor second.
            shown.append((replace(column, name=name, best=each.best if num_quoted > 1 else None), quoted, None))
    if not has_ours:
        return None
    found = {model: [cells[model] for _, cells, _ in shown] for model in models}
    rows: list[tuple[Cell, ...]] = [(name_model(model), *cells) for model, cells in found.items() if any(cells)]
    floors = [floor for *_, floor in shown]
    rows += [(layout.floor, *floors)] if layout.floor and any(floors) else []
    notes = [layout.note, *_explain(averages, layout, corpus, left_out)]
    return ReportTable(
        f"{corpus}: {layout.caption}.",
        ("model", *(column for column, *_ in shown)),
        tuple(rows),
        note=" ".join(note for note in notes if note),
        highlight=(name_model(layout.highlight),),
    )


def _explain(averages: Averages, layout: TableLayout, corpus: str, left_out: Mapping[str, str]) -> list[str]:
    """Return why tasks of a table have no figures there."""
    tasks = (task for task in dict.fromkeys(each.task for each in layout.columns) if task in left_out)
    return [f"`{task}` was left out: {left_out[task]}." for task in tasks if not averages.list_models(corpus, task)]
