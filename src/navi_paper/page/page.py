"""The page of an evaluation: every table and figure of the paper for each corpus, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from navi.report import Cell, Code, Item, Measurement, Page, ReportColumn, ReportTable, Section
from navi_paper.page.figures import FIGURES, Setting, TrainedModel, draw_curves, list_runs
from navi_paper.page.tables import (
    ABLATIONS,
    BASELINES,
    BERT,
    COMPARED,
    KNOWN,
    LONGEST_ERROR,
    MODELS,
    NAVI,
    NAVI_FE,
    PAPER,
    SECTIONS,
    SETTINGS,
    TABLE_VECTORIZER,
    Averages,
    MeasureColumn,
    SectionLayout,
    TableLayout,
    find_corpus,
    find_figure,
    find_published,
    make_table,
    name_model,
)
from navi_paper.results import Record, Results

TITLE = "NAVI, evaluated"
SAME = 0.001
"""How much an accuracy may change and still be called unchanged."""
GENERATIVE, CLUSTERING, ROBUSTNESS = (SECTIONS[name].tables[0] for name in ("generative", "clustering", "robustness"))
ENCODERS, _, FEATURES = SECTIONS["classification"].tables
Place = tuple[TableLayout, MeasureColumn]


def make_page(results: Results, left_out: Mapping[str, str] | None = None) -> Page:
    """Return the page of some results; `left_out` has the tasks that were not done, and what would make them possible.

    A section that nothing fills is not on the page: what was not asked for would only be in the way of the rest. It is
    named at the end, with the tasks that would fill it. One whose task was left out stays, and says why.
    """
    averages, reasons = Averages(results), dict(left_out or {})
    filled = [_show(averages, layout, reasons) for layout in SECTIONS.values()]
    sections = [
        show_claims(averages),
        *filled,
        _show_training(averages),
        _show_left_out(averages, reasons),
        _show_failed(averages.failed),
        _show_origin(averages),
    ]
    return Page(TITLE, _write_lead(averages), tuple(section for section in sections if section is not None))


def _write_lead(averages: Averages) -> str:
    if not averages.records:
        return "There are no results yet. `navi evaluate CORPUS -o RESULTS` makes some."
    quoted = [corpus for corpus in averages.corpora if find_corpus(corpus)]
    whole = [name_model(model) for model in averages.models if model in MODELS["whole"] or model not in KNOWN]
    ablated = len(averages.models) - len(whole)
    compared = [*whole, *([f"{ablated} ablation{'s' if ablated > 1 else ''}"] if ablated else [])]
    lead = (
        f"{_join(compared)}, measured on {_join(averages.corpora)}. All were trained from the same backbone on the "
        "same rows for the same number of steps, except those that were taken as they are."
    )
    if PAPER in averages.models:
        lead += " NAVI (paper) does as the paper says (`--preset paper`), NAVI is the default."
    if len(averages.seeds) > 1:
        lead += f" Figures are means over {len(averages.seeds)} seeds, with their deviation behind ±."
    if quoted:
        lead += (
            "\n\nColumns called “paper” quote the paper. It has larger corpora of the same names and a larger "
            "backbone: what is to be compared is the distance between models, not the figures themselves."
        )
    return lead


def _show(averages: Averages, layout: SectionLayout, left_out: Mapping[str, str]) -> Section | None:
    """Return a section; None if there is nothing to say."""
    items: list[Item] = []
    for table in layout.tables:
        made = (make_table(averages, table, corpus, left_out) for corpus in averages.corpora)
        items += [each for each in made if each is not None]
    for name in layout.figures:
        items += [figure for corpus in averages.corpora for figure in FIGURES[name](averages, corpus)]
    lacking = [f"`{task}` was left out: {left_out[task]}." for task in layout.tasks if task in left_out]
    if not items and not lacking:
        return None
    return Section(layout.title, layout.text if items else " ".join([layout.text, *lacking]), tuple(items))


def _show_training(averages: Averages) -> Section | None:
    """Return settings as run and learning curves, for the models that were trained in these results."""
    items: list[Item] = []
    for corpus in averages.corpora:
        table = tabulate_settings(list_runs(averages, corpus), corpus)
        items += [table] if table is not None else []
        items += draw_curves(averages, corpus)
    text = "Settings as run, of the first seed; the paper's stand in the last column where it states them."
    return Section("Hyper-parameters and learning curves", text, tuple(items)) if items else None


def tabulate_settings(runs: Mapping[str, TrainedModel], corpus: str) -> ReportTable | None:
    """Return the settings of some runs, one a row; None if there are none."""
    names = list(dict.fromkeys(name for run in runs.values() for name in run.settings if name != "training.seed"))
    if not names:
        return None
    models = [model for model, run in runs.items() if run.settings]
    rows = tuple(
        (name, *(_spell(runs[model].settings, name) for model in models), _spell(SETTINGS, name)) for name in names
    )
    columns = ("setting", *(name_model(model) for model in models), "paper")
    note = "A dash: the model has no such setting. In the paper a tenth is held out, and θ is 5 % and 95 %."
    return ReportTable(f"{corpus}: hyper-parameters as run.", columns, rows, note=note)


def _spell(settings: Mapping[str, Setting], name: str) -> str | None:
    """Return a setting as it is written in a configuration: rounded, small rates would read as 0."""
    setting = settings.get(name)
    if setting is None:
        return "off" if name in settings else None
    if isinstance(setting, bool):
        return str(setting).lower()
    return setting if isinstance(setting, str) else f"{setting:g}"


def _show_left_out(averages: Averages, left_out: Mapping[str, str]) -> Section | None:
    """Return what is not on the page, and what would bring it there."""
    rows: list[tuple[Cell, ...]] = []
    for task, reason in left_out.items():
        name = task.split(" of ")[0]  # a task may be left out for one model alone
        titles = [each.title for each in SECTIONS.values() if name in each.tasks]
        rows.append((task, ", ".join(titles) or None, reason))
    tried = {*left_out, *(record.task for record in averages.records)}
    for layout in SECTIONS.values():
        missing = [task for task in layout.tasks if task not in tried]
        tried.update(missing)
        if missing:
            command = f"navi evaluate CORPUS -o RESULTS --tasks {','.join(missing)}"
            rows.append((", ".join(missing), layout.title, f"not asked for: {command}"))
    if not rows:
        return None
    text = "Tasks without figures in these results, the sections that they fill, and what would make them possible."
    return Section(
        "What was left out", text, (ReportTable("What was left out.", ("task", "fills", "why"), tuple(rows)),)
    )


def _show_failed(failed: Iterable[Record]) -> Section | None:
    rows = tuple(
        (each.task, each.corpus, name_model(each.model), each.seed, (each.error or "")[:LONGEST_ERROR])
        for each in failed
    )
    if not rows:
        return None
    columns = ("task", "corpus", "model", ReportColumn("seed"), "error")
    text = "These cells have no figures. The same command tries them again, and them alone."
    return Section("What failed", text, (ReportTable("Cells that failed.", columns, rows),))


def _show_origin(averages: Averages) -> Section | None:
    """Return which commands, versions and devices the figures come from."""
    if not averages.records:
        return None
    commands = dict.fromkeys(str(record.about["command"]) for record in averages.records if "command" in record.about)
    origins: dict[tuple[Cell, ...], None] = {}
    for record in averages.records:
        versions = ", ".join(f"{name} {version}" for name, version in record.about.get("versions", {}).items())
        device, fingerprint = (str(record.about.get(name, "")) for name in ("device", "fingerprint"))
        origins[record.corpus, device, versions, fingerprint[:16]] = None
    columns = ("corpus", "device", "versions", "fingerprint of the corpus")
    items: list[Item] = [Code("\n".join(commands))] if commands else []
    items.append(ReportTable("Where the figures were made.", columns, tuple(origins)))
    minutes = sum(record.seconds for record in averages.records) / 60
    text = f"{len(averages.records)} cells, measured in {minutes:.0f} minutes, training apart."
    return Section("Where the figures come from", text, tuple(items))


def _join(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that the paper says, seen in some cells."""

    text: str
    """What is said."""
    margins: tuple[float, ...]
    """By how much it holds in each cell; not above 0 where it does not."""

    @property
    def num_holding(self) -> int:
        """In how many cells it holds."""
        return sum(margin > 0 for margin in self.margins)


def show_claims(averages: Averages) -> Section | None:
    """Return the section: NAVI against BERT, measure by measure, and the paper's other claims."""
    tables = [table for corpus in averages.corpora for table in (compare_with_bert(averages, corpus),) if table]
    rows = [
        (claim.text, corpus, f"{claim.num_holding} of {len(claim.margins)}", min(claim.margins), min(claim.margins) > 0)
        for corpus in averages.corpora
        for claim in list_claims(averages, corpus)
    ]
    if rows:
        columns = ("claim", "corpus", "cells where it holds", ReportColumn("smallest margin", digits=4), "holds")
        tables.append(
            ReportTable("The paper's other claims, in the cells that it has figures for.", columns, tuple(rows))
        )
    if not tables:
        return None
    text = (
        "BERT, NAVI as in the paper (`--preset paper`) and NAVI as it is by default, with the margin of the last over "
        "the first beside the paper's. A margin holds if it is at least the paper's; where the paper has none, if "
        "there is one. `permuted`: columns in another order; `unseen`: tables that no model was trained on."
    )
    return Section("NAVI against BERT, and what the paper claims", text, tuple(tables))


def compare_with_bert(averages: Averages, corpus: str) -> ReportTable | None:
    """Return the three models side by side, measure by measure."""
    places = [(layout, shown) for section in SECTIONS.values() for layout in section.tables for shown in layout.columns]
    # A measure that stands in several tables is taken from the first, which has all models.
    by_measure = {f"{shown.task}/{shown.measure}": (layout, shown) for layout, shown in reversed(places)}
    rows = [_compare(averages, corpus, title, by_measure[key]) for key, title in COMPARED.items()]
    filled = tuple(row for row in rows if any(cell is not None for cell in row[1:4]))
    measured, margin = "measured", "margin over BERT"
    columns: tuple[ReportColumn | str, ...] = (
        "measure",
        *(ReportColumn(name_model(model), measured) for model in (BERT, PAPER, NAVI)),
        ReportColumn("here", margin),
        ReportColumn("paper", margin),
        ReportColumn("holds", margin),
    )
    return ReportTable(f"{corpus}: the three models.", columns, filled) if filled else None


def list_claims(averages: Averages, corpus: str) -> list[Claim]:
    """Return the claims that these results can say something of."""

    def subtract_models(shown: MeasureColumn, first: str, second: str) -> float | None:
        return subtract(*(find_figure(averages, shown, corpus, model) for model in (first, second)))

    def order(columns: Iterable[MeasureColumn], first: str, second: str, where: str = "") -> Claim:
        """Return the claim that one model is ahead of another in some columns."""
        margins = [subtract_models(shown, first, second) for shown in columns]
        text = f"{name_model(first)} ahead of {name_model(second)} {where}".rstrip()
        return Claim(text=text, margins=tuple(margin for margin in margins if margin is not None))

    def is_worse(layout: TableLayout, shown: MeasureColumn, ablated: str) -> bool:
        """Return whether the paper has an ablation worse than the whole."""
        quoted = (find_published(layout.paper, corpus, model, shown.paper) for model in (PAPER, ablated))
        return (subtract(*quoted) or 0.0) > 0

    def list_quoted(*tables: TableLayout) -> list[Place]:
        return [(table, shown) for table in tables for shown in table.columns if shown.paper]

    quoted = [shown for _, shown in list_quoted(GENERATIVE, CLUSTERING)]
    claims = [order(quoted, NAVI, other, "in predicting and clustering") for other in BASELINES]
    claims.append(order([shown for _, shown in list_quoted(FEATURES)], NAVI_FE, TABLE_VECTORIZER))
    default, permuted, *renamed = ROBUSTNESS.columns[:4]
    text = f"NAVI's header accuracy unchanged (± {SAME}) with columns permuted"
    moved = subtract(*(find_figure(averages, shown, corpus, NAVI) for shown in (permuted, default)))
    claims.append(Claim(text=text, margins=() if moved is None else (SAME + 1e-9 - abs(moved),)))
    changes = [[find_figure(averages, shown, corpus, model) for model in (NAVI, BERT)] for shown in renamed]
    kept = [[each.change for each in pair if each and each.change is not None] for pair in changes]
    less = tuple(pair[0] - pair[1] for pair in kept if len(pair) == 2)
    claims.append(Claim(text="NAVI loses less than BERT under synonyms and typos", margins=less))
    for ablated in (f"{PAPER}-{ablation}" for ablation in ABLATIONS):
        columns = [shown for layout, shown in list_quoted(GENERATIVE, ENCODERS) if is_worse(layout, shown, ablated)]
        claims.append(order(columns, PAPER, ablated, "where the paper says so"))
    routed = [shown for _, shown in list_quoted(*SECTIONS["routing"].tables)]
    claims.append(order(routed, PAPER, f"{PAPER}-random_routing"))
    return [claim for claim in claims if claim.margins]


def subtract(first: Measurement | None, second: Measurement | None) -> float | None:
    """Return a difference; None where one of both is missing."""
    return None if first is None or second is None else first.value - second.value


def _compare(averages: Averages, corpus: str, title: str, place: Place) -> tuple[Cell, ...]:
    layout, shown = place
    bert, published, navi = (find_figure(averages, shown, corpus, model) for model in (BERT, PAPER, NAVI))
    quoted = subtract(*(find_published(layout.paper, corpus, model, shown.paper) for model in (PAPER, BERT)))
    margin = subtract(navi, bert)
    least = 0.001 if quoted is None else round(quoted, 3)
    # Compared as they read, with three digits.
    holds = None if margin is None else round(margin, 3) >= least
    return title, bert, published, navi, margin, quoted, holds
