"""What stands where on the page: which measure of which task is which column of which table.

A measure that a task calls otherwise one day is changed here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from navi_paper.page import paper
from navi_paper.page.layout import ABLATED, NAVI, PAPER, WHOLE, SectionLayout, Shown, TableLayout


def _predict(split: str, view: str, *, quoted: bool = False) -> tuple[Shown, ...]:
    """Return the columns of header prediction and value imputation for a split and a view of it."""
    asked = (
        ("Header, informed", "header_informed", "header"),
        ("Header, blind", "header_blind", None),
        ("Value", "value", "value"),
    )
    return tuple(
        Shown(
            task="generative",
            measure=f"{split}_{what}{view}_{unit}",
            name=unit,
            group=group,
            digits=4 if quoted else 3,
            paper=quote if quoted and unit == "token" else None,
            floor=None if view else f"{split}_{what.split('_')[0]}_frequent_{unit}",
        )
        for group, what, quote in asked
        for unit in ("token", "exact")
    )


_FREQUENT = "Most frequent of the column"
GENERATIVE = SectionLayout(
    title="Header prediction and value imputation",
    text=(
        "A quarter of the headers, or of the values, of a row are hidden whole; `token` is the share of their tokens "
        "guessed rightly (the paper's measure), `exact` the share of headers or values guessed whole.\n\n"
        "Two protocols for headers. `informed` is the paper's: NAVI is told the attribute of the hidden header, which "
        "is nearly the answer. `blind` keeps the attribute from it as well, which is the comparison that is fair to "
        "models that are told none; for those, both are the same."
    ),
    tables=(
        TableLayout(
            caption="rows of known tables, columns as they stand",
            columns=_predict("test", "", quoted=True),
            models=(*WHOLE, *ABLATED),
            paper=paper.GENERATIVE,
            floor=_FREQUENT,
        ),
        TableLayout(
            caption="rows of known tables, columns permuted: order is no knowledge",
            columns=_predict("test", "_permuted"),
            models=(*WHOLE, *ABLATED),
        ),
        TableLayout(
            caption="tables that were never seen",
            columns=_predict("unseen", ""),
            models=(*WHOLE, *ABLATED),
            floor=_FREQUENT,
        ),
        TableLayout(
            caption="tables that were never seen, columns permuted",
            columns=_predict("unseen", "_permuted"),
            models=(*WHOLE, *ABLATED),
        ),
    ),
)


def _reconstruct(what: str, group: str, *, quoted: bool = False) -> tuple[Shown, ...]:
    return tuple(
        Shown(
            task="reconstruction",
            measure=f"test_{what}_{part}",
            name=name,
            group=group,
            digits=4,
            paper=part if quoted and part in ("q1", "q3") else None,
        )
        for part, name in (("q1", "Q1"), ("median", "median"), ("q3", "Q3"))
    )


RECONSTRUCTION = SectionLayout(
    title="Semantic reconstruction",
    text=(
        "How near the states of a field come, when its value or header is hidden, to the states of the whole field: "
        "quartiles of their cosines. The paper compares NAVI with CM2, which predicts no tokens. Cosines of different "
        "models live in different spaces: a model whose states are all alike has high ones."
    ),
    tables=(
        TableLayout(
            caption="cosines of hidden fields with whole ones",
            columns=(
                *_reconstruct("value", "Value hidden", quoted=True),
                *_reconstruct("header_blind", "Header hidden, blind"),
            ),
            paper=paper.RECONSTRUCTION,
            note="The paper hides both in turn and does not say how they are put together.",
        ),
    ),
    figures=("similarities",),
)


def _cluster(split: str, part: str, view: str, group: str, *, quoted: bool = False) -> tuple[Shown, ...]:
    return tuple(
        Shown(
            task="clustering",
            measure=f"{split}_{part}{view}_{figure}",
            name=name,
            group=group,
            digits=4 if quoted else 3,
            paper=figure if quoted else None,
        )
        for figure, name in (("nmi", "NMI"), ("b3_f1", "B³-F1"))
    )


_DISTANCES = (("cosine", "cosine", "lowest"), ("l2", "L2", "lowest"), ("silhouette", "silhouette", "highest"))
CLUSTERING = SectionLayout(
    title="Header clustering",
    text=(
        "Columns that mean the same should lie together. A column is the mean of its headers in context, to which "
        "NAVI's default adds attributes (or of its whole segments); there are as many clusters as gold concepts."
    ),
    tables=(
        TableLayout(
            caption="columns of known tables",
            columns=(
                *_cluster("test", "headers", "", "Headers", quoted=True),
                *_cluster("test", "headers", "_permuted", "Headers, permuted"),
                *_cluster("test", "segments", "", "Segments"),
            ),
            models=(*WHOLE, *ABLATED),
            paper=paper.CLUSTERING,
        ),
        TableLayout(
            caption="columns of tables that were never seen",
            columns=(
                *_cluster("unseen", "headers", "", "Headers"),
                *_cluster("unseen", "headers", "_permuted", "Headers, permuted"),
                *_cluster("unseen", "segments", "", "Segments"),
            ),
            models=(*WHOLE, *ABLATED),
        ),
        TableLayout(
            caption="distance of columns that mean the same under different headers, and separation of the concepts",
            columns=tuple(
                Shown(
                    task="clustering",
                    measure=f"test_headers_{figure}",
                    name=name,
                    group="Headers",
                    best=best,
                    paper=figure,
                )
                for figure, name, best in _DISTANCES
            ),
            models=(*WHOLE, *ABLATED),
            paper=paper.VARIANTS,
            note="The paper's are of some header groups of Movie; ours are of all concepts.",
        ),
    ),
    figures=("headers", "concept"),
)


def _perturb(protocol: str, *, quoted: bool) -> tuple[Shown, ...]:
    views = (
        ("default", "Default"),
        ("permuted", "Columns permuted"),
        ("synonyms", "Synonyms"),
        ("typos", "Typos"),
        ("synonyms_any", "Synonyms, all columns"),
        ("typos_any", "Typos, all columns"),
    )
    return tuple(
        Shown(
            task="robustness",
            measure=f"{protocol}_{view}_token",
            name="token",
            group=group,
            digits=4,
            paper=view if quoted and not view.endswith("_any") else None,
            loss=None if view == "default" else f"{protocol}_{view}_loss",
        )
        for view, group in views
    )


_LOSSES = "In brackets the relative change from the default, the smallest loss in bold."
ROBUSTNESS = SectionLayout(
    title="Robustness to changed schemas",
    text=(
        "Header prediction once more, the rest of the row changed at inference alone: columns permuted, and half of "
        "the low-entropy headers replaced by an unseen synonym or misspelled by one or two letters. Low-entropy "
        "columns are few, so the same is done to half of all columns as well."
    ),
    tables=(
        TableLayout(
            caption="headers predicted, informed",
            columns=_perturb("informed", quoted=True),
            paper=paper.ROBUSTNESS,
            note=_LOSSES,
        ),
        TableLayout(caption="headers predicted, blind", columns=_perturb("blind", quoted=False), note=_LOSSES),
    ),
)
CLASSIFIERS: Mapping[str, str] = {"xgboost": "XGBoost", "lr": "LR", "tabpfn": "TabPFN"}
"""Classifiers as results call them, and as the paper writes them."""
POOLS: Mapping[str, str] = {"rows": "row embeddings", "means": "mean of segments"}
"""Vectors of a row."""
NAVI_FE = f"{NAVI}/navi_fe"
VARIANTS: Mapping[str, str] = {"": "All columns", "text_only/": "Text only", "partial_text/": "Partial text"}
"""What is left of the columns, by what stands before the names of measures."""


def _classify(classifier: str, pool: str = "rows", variant: str = "", **rest: Any) -> Shown:
    """Return the column of one classifier on one kind of row vector."""
    return Shown(task=f"classification_{classifier}", measure=f"{variant}{pool}_f1", **rest)


CLASSIFICATION = SectionLayout(
    title="Row classification",
    text=(
        "Ten balanced classes, label and whatever gives it away hidden from the encoder; macro-F1, mean and deviation "
        "over the runs, each with other rows. Row embeddings are [CLS], as in the paper; NAVI's default adds the words "
        "of the row's values. Feature pipelines see the same rows and columns."
    ),
    tables=(
        TableLayout(
            caption="macro-F1 on the row embeddings of LM encoders",
            columns=tuple(_classify(each, name="F1", group=name, paper=each) for each, name in CLASSIFIERS.items()),
            models=(*WHOLE, *ABLATED),
            paper=paper.CLASSIFICATION,
        ),
        TableLayout(
            caption="macro-F1 on the vectors of LM encoders, mean of segments",
            columns=tuple(_classify(each, "means", name=name) for each, name in CLASSIFIERS.items()),
            models=(*WHOLE, *ABLATED),
        ),
        TableLayout(
            caption="macro-F1 of feature pipelines",
            columns=tuple(
                Shown(task=f"features_{classifier}", measure="{row}_f1", name="F1", group=name, paper=classifier)
                for classifier, name in CLASSIFIERS.items()
            ),
            models=(paper.RAW, paper.TABLE_VECTORIZER, paper.NAVI_FE, NAVI_FE),
            paper=paper.PIPELINES,
            highlight=NAVI_FE,
            others=False,
        ),
    ),
)
ROUTING = SectionLayout(
    title="Entropy routing against random routing",
    text="Which columns are aligned how: by their entropy, or at random.",
    tables=(
        TableLayout(
            caption="value imputation (token accuracy) and row classification (XGBoost, macro-F1)",
            columns=(
                Shown(
                    task="generative",
                    measure="test_value_token",
                    name="token",
                    group="Imputation",
                    digits=4,
                    paper="value",
                ),
                _classify("xgboost", name="F1", group="Classification", paper="xgboost"),
            ),
            models=(PAPER, f"{PAPER}-random_routing", NAVI, f"{NAVI}-random_routing"),
            paper=paper.ROUTING,
            others=False,
        ),
    ),
)
COLUMNS_KEPT = SectionLayout(
    title="All columns, text alone, part of the text",
    text="Row classification without columns of numbers, and with half of the text columns left out.",
    tables=(
        TableLayout(
            caption="macro-F1 of XGBoost on row embeddings",
            columns=tuple(
                _classify("xgboost", variant=variant, name="F1", group=name, paper=variant.rstrip("/") or "all")
                for variant, name in VARIANTS.items()
            ),
            paper=paper.COLUMNS_KEPT,
            note="The paper has NAVI's alone, and does not say of which corpus; they fit its Product.",
        ),
    ),
)
NAMING = SectionLayout(
    title="Naming columns of unseen tables",
    text=(
        "Each column of a table that nobody has seen is called by one of the headers of known tables, blind, from at "
        "most 40 of its rows; right if the gold puts both in one concept. Columns permuted is the fair comparison: "
        "models that see order know which column usually comes third. The paper has no such table."
    ),
    tables=(
        TableLayout(
            caption="share of columns named rightly, at first and within five",
            columns=tuple(
                Shown(
                    task="naming",
                    measure=f"{view}{top}",
                    name=name,
                    group=group,
                    floor=None if view else f"frequent_{top}",
                )
                for view, group in (("", "As they stand"), ("permuted_", "Columns permuted"))
                for top, name in (("top1", "top 1"), ("top5", "top 5"))
            ),
            models=(*WHOLE, *ABLATED),
            floor="Headers of most tables",
        ),
    ),
)
SINGLE_TABLES = SectionLayout(
    title="Classes of single tables",
    text="Classes that one table has each: these separate models where broad categories are too easy.",
    tables=tuple(
        TableLayout(
            caption=f"macro-F1 of {name}, {POOLS[pool]}",
            columns=(_classify(classifier, pool, "*/", name="*"),),
            apart=tuple(variant.rstrip("/") for variant in VARIANTS if variant),
        )
        for classifier, name in CLASSIFIERS.items()
        for pool in POOLS
    ),
)
GEOMETRY = SectionLayout(
    title="The geometry of segments",
    text=(
        "Segments of five tables. In the paper's picture low-entropy segments gather across tables while high-entropy "
        "ones spread out; hulls that overlap say that tables are not what tells segments apart."
    ),
    tables=(
        TableLayout(
            caption="how well the roles lie apart (silhouette, by cosine)",
            columns=(Shown(task="geometry", measure="role_silhouette", name="silhouette of the roles"),),
        ),
    ),
    figures=("segments", "roles"),
)
RELIABILITY = SectionLayout(
    title="Reliability of imputation",
    text=(
        "`navi impute` gives a probability with every value. Cells of test rows were hidden one at a time; "
        "probabilities were calibrated on validation rows."
    ),
    tables=(
        TableLayout(
            caption="values put into hidden cells, and how far their probabilities are off",
            columns=(
                Shown(task="reliability", measure="answered", name="answered", best=None),
                Shown(task="reliability", measure="accuracy", name="right"),
                Shown(task="reliability", measure="ece", name="calibration error", best="lowest"),
                Shown(task="reliability", measure="brier", name="Brier score", best="lowest"),
            ),
        ),
    ),
    figures=("reliability",),
)
SECTIONS = (
    GENERATIVE,
    RECONSTRUCTION,
    CLUSTERING,
    ROBUSTNESS,
    CLASSIFICATION,
    ROUTING,
    COLUMNS_KEPT,
    NAMING,
    SINGLE_TABLES,
    GEOMETRY,
    RELIABILITY,
)
"""The sections of the page, the paper's in its order."""
COMPARED: Mapping[str, str] = {
    "generative/test_header_informed_token": "Header, informed",
    "generative/test_header_blind_token": "Header, blind",
    "generative/test_header_blind_permuted_token": "Header, blind, permuted",
    "generative/unseen_header_blind_permuted_token": "Header, blind, permuted, unseen",
    "generative/test_value_token": "Value",
    "generative/unseen_value_token": "Value, unseen",
    "clustering/test_headers_nmi": "Clustering, NMI",
    "clustering/test_headers_b3_f1": "Clustering, B³-F1",
    "clustering/unseen_headers_b3_f1": "Clustering, B³-F1, unseen",
    "clustering/test_segments_b3_f1": "Clustering segments, B³-F1",
    "naming/permuted_top1": "Naming, top 1, permuted, unseen",
    "naming/permuted_top5": "Naming, top 5, permuted, unseen",
    **{f"classification_{each}/rows_f1": f"Classification, {name}" for each, name in CLASSIFIERS.items()},
}
"""What NAVI is compared with BERT by, as task and measure."""
