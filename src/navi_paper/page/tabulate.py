"""Tables of the page from finished cells: models are rows, measures columns, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from navi.report import Cell, Column, Number, Table
from navi_paper.page.averages import Averages
from navi_paper.page.layout import ANY, KNOWN, Shown, TableLayout, name_model

LONGEST_ERROR = 300
"""Letters of an error that are shown."""
STAR = "*"
QUOTED = "paper"
"""What a column of the paper's figures is called."""


def make_table(
    averages: Averages, layout: TableLayout, corpus: str, left_out: Mapping[str, str] | None = None
) -> Table | None:
    """Return a table for a corpus; None if there is nothing of ours in it.

    Columns without a figure are left out, and so are models; what a model of the paper's has not here is a dash.
    """
    shown = [each for each in expand(averages, layout, corpus) if _is_filled(averages, layout, each, corpus)]
    models = [model for model in list_rows(averages, layout) if _has_figures(averages, layout, shown, corpus, model)]
    if not any(find_figure(averages, each, corpus, model) for model in models for each in shown):
        return None
    columns = [column for each in shown for column in _make_columns(layout, each, corpus)]
    rows: list[tuple[Cell, ...]] = [
        (name_model(model), *(cell for each in shown for cell in _fill(averages, layout, each, corpus, model)))
        for model in models
    ]
    rows += _list_floor(averages, layout, shown, corpus)
    notes = [layout.note, *_explain(averages, layout, corpus, left_out or {})]
    return Table(
        f"{corpus}: {layout.caption}.",
        ("model", *columns),
        tuple(rows),
        note=" ".join(note for note in notes if note),
        highlight=(name_model(layout.highlight),),
    )


def list_rows(averages: Averages, layout: TableLayout) -> tuple[str, ...]:
    """Return the models of a table; those that no table knows come last."""
    return (*layout.models, *(model for model in averages.models if layout.others and model not in KNOWN))


def find_figure(averages: Averages, shown: Shown, corpus: str, model: str) -> Number | None:
    """Return our figure of a model, with what it lost where that is shown."""
    owner, _, row = model.partition("/")
    measure = shown.measure.replace("{row}", row)
    if owner == ANY:
        return averages.find_any(corpus, shown.task, measure)
    number = averages.find(corpus, shown.task, owner, measure)
    if number is None or shown.loss is None:
        return number
    loss = averages.find(corpus, shown.task, owner, shown.loss)
    return number if loss is None else replace(number, change=-loss.value)


def find_quoted(layout: TableLayout, shown: Shown, corpus: str, model: str) -> Number | None:
    """Return the paper's figure of a model."""
    if layout.paper is None or shown.paper is None:
        return None
    return layout.paper.find(corpus, model, shown.paper)


def expand(averages: Averages, layout: TableLayout, corpus: str) -> list[Shown]:
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


def _is_filled(averages: Averages, layout: TableLayout, shown: Shown, corpus: str) -> bool:
    return any(
        find_figure(averages, shown, corpus, model) or find_quoted(layout, shown, corpus, model)
        for model in list_rows(averages, layout)
    )


def _is_quoted(layout: TableLayout, shown: Shown, corpus: str) -> bool:
    return any(find_quoted(layout, shown, corpus, model) for model in layout.models)


def _has_figures(averages: Averages, layout: TableLayout, shown: list[Shown], corpus: str, model: str) -> bool:
    return any(find_figure(averages, each, corpus, model) or find_quoted(layout, each, corpus, model) for each in shown)


def _make_columns(layout: TableLayout, shown: Shown, corpus: str) -> list[Column]:
    ours = Column(shown.name, shown.group, shown.digits, best=shown.best, best_change=shown.loss is not None)
    if not _is_quoted(layout, shown, corpus):
        return [ours]
    # Under a header of its own a column need not say whose figure of what it is.
    name = QUOTED if shown.group else f"{QUOTED}, {shown.name}"
    # A figure that stands alone is neither best nor second.
    several = sum(find_quoted(layout, shown, corpus, model) is not None for model in layout.models) > 1
    return [ours, replace(ours, name=name, best=ours.best if several else None)]


def _fill(averages: Averages, layout: TableLayout, shown: Shown, corpus: str, model: str) -> list[Cell]:
    ours = find_figure(averages, shown, corpus, model)
    if not _is_quoted(layout, shown, corpus):
        return [ours]
    return [ours, find_quoted(layout, shown, corpus, model)]


def _list_floor(averages: Averages, layout: TableLayout, shown: list[Shown], corpus: str) -> list[tuple[Cell, ...]]:
    """Return the row of the simple guess, if the table has one."""
    cells: list[Cell] = []
    for each in shown:
        cells.append(None if each.floor is None else averages.find_any(corpus, each.task, each.floor))
        cells += [None] if _is_quoted(layout, each, corpus) else []
    return [(layout.floor, *cells)] if layout.floor and any(cells) else []


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
