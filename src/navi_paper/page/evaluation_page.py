"""The page of an evaluation: every table and figure of the paper for each corpus, the paper's figures beside ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from navi.report import Cell, Code, Item, Page, ReportColumn, ReportTable, Section
from navi_paper.page.figures import FIGURES
from navi_paper.page.tables import (
    ANY,
    KNOWN,
    MODELS,
    NAVI,
    PAPER,
    SECTIONS,
    Averages,
    MeasureColumn,
    SectionLayout,
    find_corpus,
    find_published,
    make_table,
    name_model,
)
from navi_paper.results import Record, Results

TITLE = "NAVI, evaluated"
Measures = Mapping[str, float]
LONGEST_ERROR = 300
"""Letters of an error that are shown."""
LEVEL = 0.05
"""P-value below which paired runs differ."""
ROW_RATIO, TABLE_RATIO = 0.25, 0.43
"""Rows held out for each row learnt from, where rows and where whole tables are held out."""


def make_page(results: Results, left_out: Mapping[str, str] | None = None) -> Page:
    """Return the page of some results; `left_out` has the tasks that were not done, and what would make them possible.

    A section that nothing fills is not on the page: what was not asked for would only be in the way of the rest. One
    whose task was left out stays, and says why.
    """
    averages, reasons = Averages(results), dict(left_out or {})
    filled = [_show(averages, layout, reasons) for layout in SECTIONS.values()]
    sections = [
        show_claims(averages),
        *filled,
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
        "same rows, for as many epochs as lowered their own validation loss, unless a name says otherwise."
    )
    if PAPER in averages.models:
        lead += " NAVI (paper) does as the paper says (`--preset paper`), NAVI is the default."
    if len(averages.seeds) > 1:
        lead += f" Figures are means over up to {len(averages.seeds)} seeds, with their deviation behind ±, if any."
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
class Comparison:
    """Two models in a cell of the paper."""

    claim: str
    measure: str
    margin: float
    """By how much the first is ahead."""
    noise: float | None
    """Deviation of the margin over seeds, or its p-value over paired runs; None where neither is known."""
    holds: bool
    """Whether it is ahead beyond chance."""


def compare(
    first: Sequence[Measures], second: Sequence[Measures], name: str, other: str | None = None
) -> Comparison | None:
    """Return how far one model is ahead of another in a measure, by the measures of each seed; None where one has none.

    `other` is what the measure is called of the second, if otherwise. Scores of runs that both made on the same rows
    are compared pair by pair (Nadeau and Bengio's corrected t-test, 5 %); other figures are apart if they are by more
    than the deviation over seeds.
    """
    other = other or name
    ours, theirs = [each[name] for each in first if name in each], [each[other] for each in second if other in each]
    if not ours or not theirs:
        return None
    margin = fmean(ours) - fmean(theirs)
    made = Comparison(claim="", measure=name, margin=margin, noise=None, holds=False)
    runs = average_runs(first, name), average_runs(second, other)
    if len(runs[0]) > 1 and len(runs[0]) == len(runs[1]):
        p = test_pairs(runs[0] - runs[1], TABLE_RATIO if "tables" in name else ROW_RATIO)
        return replace(made, noise=p, holds=margin > 0 and p < LEVEL)
    known = [stdev(side) ** 2 for side in (ours, theirs) if len(side) > 1]
    noise = (2 * fmean(known)) ** 0.5 if known else None
    return replace(made, noise=noise, holds=noise is not None and margin > noise)


def average_runs(measures: Sequence[Mapping[str, float]], name: str) -> NDArray[np.float64]:
    """Return the score of each run, averaged over seeds: (runs,), none where a measure has no runs."""
    pattern = re.compile(rf"{re.escape(name)}_run\d+")
    found = [[each[key] for key in sorted(each) if pattern.fullmatch(key)] for each in measures]
    return np.array(found).mean(axis=0) if found and found[0] else np.zeros(0)


def test_pairs(apart: NDArray[np.float64], ratio: float) -> float:
    """Return the p-value of the mean of paired differences over runs whose training rows overlap.

    >>> round(test_pairs(np.array([0.01, 0.02, 0.03]), 0.25), 3)
    0.122
    """
    from scipy.stats import t

    variance = apart.var(ddof=1) * (1 / len(apart) + ratio)
    return 1.0 if variance == 0 else float(2 * t.sf(abs(apart.mean()) / variance**0.5, len(apart) - 1))


def show_claims(averages: Averages) -> Section | None:
    """Return what the paper claims, for its encoder and for ours; then what does not hold, cell by cell."""
    tables: list[Item] = []
    failed: list[tuple[Cell, ...]] = []
    for corpus in averages.corpora:
        found = {model: list_claims(averages, corpus, model) for model in (PAPER, NAVI)}
        claims = list(dict.fromkeys(each.claim for cells in found.values() for each in cells))
        rows = [(claim, *(_count(found[model], claim) for model in found)) for claim in claims]
        if rows:
            columns = ("claim", *(name_model(model) for model in found))
            note = "Cells where it holds beyond chance, of all; in brackets those where NAVI is behind."
            tables.append(ReportTable(f"{corpus}: what the paper claims.", columns, tuple(rows), note=note))
        failed += [
            (each.claim, corpus, name_model(model), each.measure, each.margin, each.noise)
            for model, cells in found.items()
            for each in cells
            if not each.holds
        ]
    if not tables:
        return None
    heads: list[ReportColumn | str] = ["claim", "corpus", "encoder", "measure"]
    heads += [ReportColumn(name, digits=4) for name in ("margin", "noise")]
    tables.append(ReportTable("Cells of claims that do not hold beyond chance.", heads, tuple(failed)))
    text = (
        "A cell is a claim where the paper has NAVI ahead of another model, an ablation or a feature pipeline; cells "
        "that it marks N/A, or where it is behind, are none. A claim holds in a cell if the margin is larger than its "
        "deviation over seeds, or, for classifiers, if paired runs differ at the 5 % level (corrected t-test); noise "
        "is that deviation, or that p-value. Without a noise there was one seed, and nothing is said to hold. Its own "
        "encoder (`--preset paper`) and ours (the default) are judged apart."
    )
    return Section("What the paper claims, and what holds", text, tuple(tables))


def _count(cells: Sequence[Comparison], claim: str) -> str | None:
    own = [each for each in cells if each.claim == claim]
    against = sum(each.margin < 0 for each in own)
    return f"{sum(each.holds for each in own)} of {len(own)}" + (f" ({against})" if against else "") if own else None


def list_claims(averages: Averages, corpus: str, navi: str) -> list[Comparison]:
    """Return each cell where the paper has NAVI ahead, with the two models as measured here."""
    found: list[Comparison | None] = []
    for section in SECTIONS.values():
        for layout, shown in ((table, column) for table in section.tables for column in table.columns if column.paper):
            sign = -1.0 if shown.best == "lowest" else 1.0
            own = next((each for each in layout.models if each.split("/")[0] == PAPER), PAPER)
            for other in layout.models:
                quoted = [find_published(layout.paper, corpus, each, shown.paper) for each in (own, other)]
                if other == own or None in quoted or sign * (quoted[0].value - quoted[1].value) <= 0:  # type: ignore[union-attr]
                    continue
                ours, theirs = (_read(averages, corpus, shown, each.replace(PAPER, navi)) for each in (own, other))
                cell = compare(*((ours, theirs) if sign > 0 else (theirs, ours)), "value")
                claim = f"{section.title}: ahead of {name_model(other).removesuffix(' (paper)')}"
                name = f"{shown.task} {shown.group or shown.name}"
                found.append(cell and replace(cell, claim=claim, measure=name))
    found += [*_compare_losses(averages, corpus, navi), _compare_quartiles(averages, corpus, navi)]
    return [each for each in found if each is not None]


def _read(averages: Averages, corpus: str, shown: MeasureColumn, model: str) -> list[dict[str, float]]:
    """Return a measure and its runs for each seed of a model, the measure called `value`."""
    task, owner, name = shown.locate(model)
    owners = averages.list_models(corpus, task) if owner == ANY else (owner,)
    records = [each for model in owners for each in averages.list_records(corpus, task, model)]
    return [
        {key.replace(name, "value", 1): value for key, value in each.measures.items() if key.startswith(name)}
        for each in (records[:1] if owner == ANY else records)
        if name in each.measures
    ]


def _compare_losses(averages: Averages, corpus: str, navi: str) -> Iterator[Comparison | None]:
    """Yield Table 2's second claim, where the paper's model loses least of all by a changed schema."""
    for layout, shown in ((table, column) for table in SECTIONS["robustness"].tables for column in table.columns):
        quoted = {model: find_published(layout.paper, corpus, model, shown.paper) for model in layout.models}
        changes = {model: each.change for model, each in quoted.items() if each is not None and each.change is not None}
        if shown.loss is None or max(changes, key=lambda model: changes[model], default="") != PAPER:
            continue
        ours = [each.measures for each in averages.list_records(corpus, shown.task, navi)]
        for other in (model for model in changes if model != PAPER):
            theirs = [each.measures for each in averages.list_records(corpus, shown.task, other)]
            claim = f"{SECTIONS['robustness'].title}: loses less than {name_model(other)}"
            cell = compare(theirs, ours, shown.loss)
            yield cell and replace(cell, claim=claim, measure=f"{shown.task} {shown.group}")


def _compare_quartiles(averages: Averages, corpus: str, navi: str) -> Comparison | None:
    """Return Figure 3's claim: NAVI's lower quartile is above CM2's upper one."""
    ours, theirs = (
        [each.measures for each in averages.list_records(corpus, "reconstruction", model)] for model in (navi, "cm2")
    )
    cell = compare(ours, theirs, "test_value_q1", "test_value_q3")
    return cell and replace(
        cell, claim="Semantic reconstruction: lower quartile above CM2's upper one", measure="cosine"
    )
