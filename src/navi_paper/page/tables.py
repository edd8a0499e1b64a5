"""Tables of the page: models are rows, measures columns, averaged over seeds, with the paper's figures beside ours.

Which measure stands where is said in `contents.toml`, what the paper reports in `paper.json`.
"""

from __future__ import annotations

import json
import re
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
BASELINES = ("tapas", "haetae", "cm2")
ABLATIONS = ("without_attributes", "without_segment_masking", "without_alignment")
ABLATION_NAMES = dict(
    zip((*ABLATIONS, "random_routing"), ("w/o CAE", "w/o MSM", "w/o ESA", "random routing"), strict=True)
)
RAW, TABLE_VECTORIZER, NAVI_FE = "any/raw", "any/table_vectorizer", f"{NAVI}/navi_fe"
"""Feature pipelines; the first two need no model, so that any model's cells have them."""
MODEL_NAMES: Mapping[str, str] = {
    BERT: "BERT",
    "tapas": "TAPAS",
    "haetae": "HAETAE",
    "cm2": "CM2",
    PAPER: "NAVI (paper)",
    NAVI: "NAVI",
    RAW: "Raw features",
    TABLE_VECTORIZER: "TableVectorizer",
    f"{PAPER}/navi_fe": "NAVI_FE (paper)",
    NAVI_FE: "NAVI_FE",
}
MODELS = {
    "whole": (BERT, *BASELINES, PAPER, NAVI),
    "ablated": tuple(f"{model}-{ablation}" for model in (PAPER, NAVI) for ablation in ABLATIONS),
    "routed": (f"{PAPER}-random_routing", f"{NAVI}-random_routing"),
}
"""Models of the paper by group, in the order of the rows."""
KNOWN = frozenset(model for group in MODELS.values() for model in group)
"""Every model that some table has a place for."""
CORPORA = ("product", "movie")
"""The paper's corpora, in its order."""
DEVIATION = "_deviation"
"""Stands behind the name of the measure that a deviation belongs to."""
ANY, STAR, QUOTED = "any", "*", "paper"
"""Whichever model has a figure; whatever a measure's name holds there; what a column of the paper's is called."""
LONGEST_ERROR = 300
"""Letters of an error that are shown."""


@dataclass(frozen=True, kw_only=True)
class MeasureColumn:
    """A measure as a column of a table."""

    task: str
    """The task that measures it."""
    measure: str
    """What the task calls it; a star stands for whatever is found there, one column each."""
    name: str
    """What the column is called; a star is put as in the measure."""
    group: str = ""
    """What stands above it and its neighbours."""
    best: str | None = "highest"
    """Which figure is best."""
    digits: int = 3
    """Digits behind the point."""
    paper: str | None = None
    """What the paper's table calls it; its column stands behind ours."""
    loss: str | None = None
    """A measure of how much is lost, relatively, shown beside the figure."""
    floor: str | None = None
    """A measure of what a simple guess gets."""


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """A table: models are rows, measures are columns."""

    caption: str
    """What it shows."""
    columns: tuple[MeasureColumn, ...]
    """The measures."""
    models: tuple[str, ...] = MODELS["whole"]
    """The rows; those without figures are left out. `MODEL/ROW` is one of several that a model's cells hold: `{row}` in
    a measure is its name, and the model `any` is whichever has it."""
    paper: str | None = None
    """The paper's table beside which it stands."""
    note: str = ""
    """What is to be said below it."""
    floor: str = ""
    """What the simple guess is called."""
    apart: tuple[str, ...] = ()
    """What a star does not stand for, since it stands elsewhere."""
    highlight: str = NAVI
    """The row that stands out."""
    others: bool = True
    """Whether models that no table has a place for are rows too."""


@dataclass(frozen=True, kw_only=True)
class SectionLayout:
    """A section: some tables and some figures of the same tasks."""

    title: str
    """Its heading."""
    text: str
    """What is to be said first."""
    tables: tuple[TableLayout, ...] = ()
    """Its tables."""
    figures: tuple[str, ...] = ()
    """Its figures, by the names that `navi_paper.page.figures` has for them."""

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
COMPARED: Mapping[str, str] = _CONTENTS.pop("compared")
"""What NAVI is compared with BERT by, as task and measure."""
SECTIONS: Mapping[str, SectionLayout] = {name: _read_section(entry) for name, entry in _CONTENTS.items()}
"""The sections of the page, the paper's in its order."""
SETTINGS: Mapping[str, str | float | int] = _PUBLISHED["settings"]
"""Hyper-parameters that the paper states, by what a run's settings call them."""


def find_corpus(name: str) -> str | None:
    """Return the corpus of the paper that a corpus is called after.

    >>> find_corpus("movie"), find_corpus("Product-small"), find_corpus("feeds")
    ('movie', 'product', None)
    """
    return next((corpus for corpus in CORPORA if corpus in name.lower()), None)


def find_published(table: str, corpus: str, model: str, measure: str) -> Measurement | None:
    """Return a figure of the paper; None where it has none."""
    figures = _PUBLISHED["tables"][table]["figures"].get(find_corpus(corpus), {})
    found = figures.get(model, {}).get(measure)
    if found is None:
        return None
    return (
        Measurement(**found)
        if isinstance(found, dict)
        else Measurement(*found)
        if isinstance(found, list)
        else Measurement(found)
    )


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

    def match(self, corpus: str, task: str, pattern: str) -> tuple[str, ...]:
        """Return what the star of a pattern stands for in the names of a task's measures, sorted."""
        expression = re.compile(re.escape(pattern).replace(r"\*", "([^/]+)"))
        models = self.list_models(corpus, task)
        records = [record for model in models for record in self.list_records(corpus, task, model)]
        names = {name for record in records for name in record.measures}
        return tuple(sorted({found.group(1) for name in names if (found := expression.fullmatch(name))}))


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
    owner, _, row = model.partition("/")
    number = averages.find(corpus, column.task, owner, column.measure.replace("{row}", row))
    if number is None or column.loss is None:
        return number
    loss = averages.find(corpus, column.task, owner, column.loss)
    return number if loss is None else replace(number, change=-loss.value)


def find_quoted(layout: TableLayout, column: MeasureColumn, corpus: str, model: str) -> Measurement | None:
    """Return the paper's figure of a model."""
    if layout.paper is None or column.paper is None:
        return None
    return find_published(layout.paper, corpus, model, column.paper)


def make_table(averages: Averages, layout: TableLayout, corpus: str, left_out: Mapping[str, str]) -> ReportTable | None:
    """Return a table for a corpus; None if there is nothing of ours in it.

    Columns without a figure are left out, and so are models; what a model of the paper's has not here is a dash.
    """
    models = (*layout.models, *(model for model in averages.models if layout.others and model not in KNOWN))
    columns = expand(averages, layout, corpus)
    ours = {(each, model): find_figure(averages, each, corpus, model) for each in columns for model in models}
    quoted = {(each, model): find_quoted(layout, each, corpus, model) for each in columns for model in models}
    if not any(ours.values()):
        return None
    columns = [each for each in columns if any(ours[each, model] or quoted[each, model] for model in models)]
    described: list[ReportColumn | str] = ["model"]
    rows: dict[str, list[Cell]] = {
        model: [name_model(model)]
        for model in models
        if any(ours[each, model] or quoted[each, model] for each in columns)
    }
    floor: list[Cell] = [layout.floor]
    for each in columns:
        shown = ReportColumn(each.name, each.group, each.digits, best=each.best, best_change=each.loss is not None)
        num_quoted = sum(quoted[each, model] is not None for model in models)
        described += [shown] if not num_quoted else [shown, _quote(shown, num_quoted)]
        for model, cells in rows.items():
            cells += [ours[each, model]] if not num_quoted else [ours[each, model], quoted[each, model]]
        floor.append(None if each.floor is None else averages.find(corpus, each.task, ANY, each.floor))
        floor += [None] if num_quoted else []
    notes = [layout.note, *_explain(averages, layout, corpus, left_out)]
    return ReportTable(
        f"{corpus}: {layout.caption}.",
        tuple(described),
        (*map(tuple, rows.values()), *([tuple(floor)] if layout.floor and any(floor[1:]) else [])),
        note=" ".join(note for note in notes if note),
        highlight=(name_model(layout.highlight),),
    )


def _quote(ours: ReportColumn, num_quoted: int) -> ReportColumn:
    """Return the column of the paper's figures."""
    # Under a header of its own a column need not say whose figure of what it is.
    name = QUOTED if ours.group else f"{QUOTED}, {ours.name}"
    # A figure that stands alone is neither best nor second.
    return replace(ours, name=name, best=ours.best if num_quoted > 1 else None)


def expand(averages: Averages, layout: TableLayout, corpus: str) -> list[MeasureColumn]:
    """Return the columns, those with a star once for each thing that it stands for."""
    columns = []
    for each in layout.columns:
        if STAR not in each.measure:
            columns.append(each)
            continue
        for found in averages.match(corpus, each.task, each.measure):
            if found not in layout.apart:
                name, group = (text.replace(STAR, found.replace("_", " ")) for text in (each.name, each.group))
                columns.append(replace(each, measure=each.measure.replace(STAR, found), name=name, group=group))
    # Those of one group stand together, in the order of their first.
    groups = list(dict.fromkeys(each.group for each in columns))
    return sorted(columns, key=lambda each: groups.index(each.group))


def _explain(averages: Averages, layout: TableLayout, corpus: str, left_out: Mapping[str, str]) -> list[str]:
    """Return why tasks of a table have no figures there."""
    notes = []
    for task in dict.fromkeys(each.task for each in layout.columns):
        failed = [each for each in averages.failed if (each.corpus, each.task) == (corpus, task)]
        if averages.list_models(corpus, task):
            continue
        if task in left_out:
            notes.append(f"`{task}` was left out: {left_out[task]}.")
        elif failed:
            notes.append(f"`{task}` failed: {(failed[0].error or '')[:LONGEST_ERROR]}")
    return notes
