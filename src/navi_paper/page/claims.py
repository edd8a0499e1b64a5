"""What the paper says of its models, and whether it holds in these results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from navi.report import Cell, Measurement, ReportColumn, ReportTable, Section
from navi_paper.page.tables import (
    ABLATIONS,
    BASELINES,
    BERT,
    COMPARED,
    NAVI,
    NAVI_FE,
    PAPER,
    SECTIONS,
    TABLE_VECTORIZER,
    Averages,
    MeasureColumn,
    TableLayout,
    find_figure,
    find_published,
    name_model,
)

SAME = 0.001
"""How much an accuracy may change and still be called unchanged."""
GENERATIVE, CLUSTERING, ROBUSTNESS = (SECTIONS[name].tables[0] for name in ("generative", "clustering", "robustness"))
ENCODERS, _, FEATURES = SECTIONS["classification"].tables
Place = tuple[TableLayout, MeasureColumn]


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
