"""The paper's own figures: what its tables and its text say, by corpus, model and measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from navi.report import Number

Figures = Mapping[str, Mapping[str, Number]]
"""Figures by model and measure."""
Given = float | tuple[float, float] | Number | None
CORPORA = ("product", "movie")
"""The paper's corpora, in its order."""
WITHOUT = ("without_attributes", "without_segment_masking", "without_alignment")
BERT, TAPAS, HAETAE, CM2, NAVI = "bert", "tapas", "haetae", "cm2", "navi-paper"
WITHOUT_CAE, WITHOUT_MSM, WITHOUT_ESA = (f"{NAVI}-{each}" for each in WITHOUT)
RANDOM_ROUTING = f"{NAVI}-random_routing"
RAW, TABLE_VECTORIZER, NAVI_FE = "any/raw", "any/table_vectorizer", f"{NAVI}/navi_fe"
"""Feature pipelines; the first two need no model, so that any model's cells have them."""


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of the paper, or what its text says instead of one."""

    name: str
    """Where in the paper it stands."""
    figures: Mapping[str, Figures]
    """Figures by corpus, model (as results call it) and measure."""

    def find(self, corpus: str, model: str, measure: str) -> Number | None:
        """Return a figure; None where the paper has none."""
        return self.figures.get(find_corpus(corpus) or "", {}).get(model, {}).get(measure)

    def list_models(self, corpus: str) -> tuple[str, ...]:
        """Return the models that the paper has in this table for a corpus, in its order."""
        return tuple(self.figures.get(find_corpus(corpus) or "", {}))


def find_corpus(name: str) -> str | None:
    """Return the corpus of the paper that a corpus is called after.

    >>> find_corpus("movie"), find_corpus("Product-small"), find_corpus("feeds")
    ('movie', 'product', None)
    """
    return next((corpus for corpus in CORPORA if corpus in name.lower()), None)


def _read(measures: tuple[str, ...], lines: Mapping[str, tuple[Given, ...]]) -> Figures:
    """Return one corpus's part of a table; a pair is a figure with its deviation, None one that is not there."""
    return {
        model: {
            measure: each if isinstance(each, Number) else Number(*each) if isinstance(each, tuple) else Number(each)
            for measure, each in zip(measures, line, strict=True)
            if each is not None
        }
        for model, line in lines.items()
    }


def _lost(value: float, percent: float) -> Number:
    return Number(value, change=round(percent / 100, 6))


_GENERATIVE = ("header", "value")
GENERATIVE = PaperTable(
    name="Table 1, header prediction and value imputation",
    figures={
        "product": _read(
            _GENERATIVE,
            {
                BERT: (0.9400, 0.7743),
                TAPAS: (0.2996, 0.2501),
                HAETAE: (0.9260, 0.7785),
                NAVI: (0.9995, 0.7933),
                WITHOUT_CAE: (0.5996, 0.5544),
                WITHOUT_MSM: (0.9959, 0.7769),
                WITHOUT_ESA: (0.9993, 0.7977),
            },
        ),
        "movie": _read(
            _GENERATIVE,
            {
                BERT: (0.9233, 0.6889),
                TAPAS: (0.2619, 0.2326),
                HAETAE: (0.8982, 0.6911),
                NAVI: (0.9998, 0.7077),
                WITHOUT_CAE: (0.5485, 0.4799),
                WITHOUT_MSM: (0.9941, 0.6792),
                WITHOUT_ESA: (0.9994, 0.7012),
            },
        ),
    },
)
RECONSTRUCTION = PaperTable(
    name="Figure 3 and its text, cosines of masked fields",
    figures={
        "product": {NAVI: {"q1": Number(0.7400)}, CM2: {"q3": Number(0.1903)}},
        "movie": {NAVI: {"q1": Number(0.7870)}, CM2: {"q3": Number(0.2578)}},
    },
)
_ROBUSTNESS = ("default", "permuted", "synonyms", "typos")
ROBUSTNESS = PaperTable(
    name="Table 2, robustness of header prediction",
    figures={
        "product": _read(
            _ROBUSTNESS,
            {
                BERT: (0.9400, _lost(0.8730, -7.12), _lost(0.9189, -2.24), _lost(0.8855, -5.80)),
                TAPAS: (0.2996, _lost(0.2681, -10.51), _lost(0.2457, -17.99), _lost(0.2539, -15.25)),
                HAETAE: (0.9260, _lost(0.8619, -6.92), _lost(0.9146, -1.23), _lost(0.8800, -4.97)),
                NAVI: (0.9995, _lost(0.9997, 0.02), _lost(0.9760, -2.35), _lost(0.9375, -6.20)),
            },
        ),
        "movie": _read(
            _ROBUSTNESS,
            {
                BERT: (0.9233, _lost(0.8590, -6.96), _lost(0.9044, -2.05), _lost(0.8762, -5.10)),
                TAPAS: (0.2619, _lost(0.2331, -11.00), _lost(0.2472, -5.61), _lost(0.2328, -11.11)),
                HAETAE: (0.8982, _lost(0.8189, -8.83), _lost(0.8889, -1.04), _lost(0.8504, -5.32)),
                NAVI: (0.9998, _lost(0.9997, -0.01), _lost(0.9870, -1.28), _lost(0.9522, -4.76)),
            },
        ),
    },
)
_CLUSTERING = ("nmi", "b3_f1")
CLUSTERING = PaperTable(
    name="Table 3, header clustering",
    figures={
        "product": _read(
            _CLUSTERING,
            {
                BERT: (0.8749, 0.7317),
                TAPAS: (0.8750, 0.7239),
                HAETAE: (0.8742, 0.7268),
                NAVI: (0.9005, 0.7920),
            },
        ),
        "movie": _read(
            _CLUSTERING,
            {
                BERT: (0.8798, 0.6969),
                TAPAS: (0.8726, 0.6759),
                HAETAE: (0.8864, 0.7276),
                NAVI: (0.9144, 0.7996),
            },
        ),
    },
)
_VARIANTS = ("cosine", "l2", "silhouette")
# The text does not say of which corpus; its examples (actor, director) are Movie's.
VARIANTS = PaperTable(
    name="text on header clustering, distances of lexical variants",
    figures={"movie": _read(_VARIANTS, {BERT: (0.36, 0.77, 0.26), NAVI: (0.30, 0.72, 0.52)})},
)
_CLASSIFIERS = ("xgboost", "lr", "tabpfn")
CLASSIFICATION = PaperTable(
    name="Table 4, row classification",
    figures={
        "product": _read(
            _CLASSIFIERS,
            {
                BERT: ((0.912, 0.013), (0.931, 0.015), (0.937, 0.020)),
                TAPAS: ((0.911, 0.013), (0.925, 0.015), (0.930, 0.013)),
                CM2: ((0.814, 0.023), (0.846, 0.018), (0.842, 0.017)),
                HAETAE: ((0.915, 0.015), (0.938, 0.011), (0.933, 0.013)),
                NAVI: ((0.928, 0.010), (0.939, 0.012), (0.946, 0.013)),
                WITHOUT_CAE: ((0.725, 0.025), (0.854, 0.026), (0.801, 0.019)),
                WITHOUT_MSM: ((0.845, 0.024), (0.903, 0.012), (0.894, 0.015)),
                WITHOUT_ESA: ((0.909, 0.019), (0.930, 0.012), (0.934, 0.013)),
            },
        ),
        "movie": _read(
            _CLASSIFIERS,
            {
                BERT: ((0.595, 0.036), (0.638, 0.043), (0.659, 0.038)),
                TAPAS: ((0.629, 0.035), (0.669, 0.023), (0.688, 0.017)),
                CM2: ((0.379, 0.025), (0.375, 0.020), (0.402, 0.015)),
                HAETAE: ((0.602, 0.050), (0.644, 0.041), (0.664, 0.016)),
                NAVI: ((0.615, 0.027), (0.667, 0.028), (0.679, 0.030)),
                WITHOUT_CAE: ((0.265, 0.027), (0.381, 0.028), (0.303, 0.021)),
                WITHOUT_MSM: ((0.467, 0.025), (0.560, 0.027), (0.522, 0.037)),
                WITHOUT_ESA: ((0.623, 0.010), (0.667, 0.010), (0.674, 0.010)),
            },
        ),
    },
)
PIPELINES = PaperTable(
    name="Table 4, feature-engineering pipelines",
    figures={
        "product": _read(
            _CLASSIFIERS,
            {
                RAW: ((0.887, 0.015), (0.829, 0.013), (0.910, 0.013)),
                TABLE_VECTORIZER: ((0.920, 0.017), (0.915, 0.014), (0.931, 0.019)),
                NAVI_FE: ((0.944, 0.017), (0.942, 0.012), (0.942, 0.015)),
            },
        ),
        "movie": _read(
            _CLASSIFIERS,
            {
                RAW: ((0.457, 0.038), (0.420, 0.035), (0.478, 0.019)),
                TABLE_VECTORIZER: ((0.622, 0.014), (0.552, 0.029), None),
                NAVI_FE: ((0.629, 0.027), (0.661, 0.028), (0.665, 0.031)),
            },
        ),
    },
)
_ROUTING = ("value", "xgboost")
ROUTING = PaperTable(
    name="Table 5, entropy-based routing",
    figures={
        "product": _read(_ROUTING, {NAVI: (0.7933, (0.928, 0.010)), RANDOM_ROUTING: (0.7903, (0.902, 0.022))}),
        "movie": _read(_ROUTING, {NAVI: (0.7077, (0.615, 0.021)), RANDOM_ROUTING: (0.7071, (0.592, 0.022))}),
    },
)
# The text does not say of which corpus; the first figure is that of Product in Table 4.
COLUMNS_KEPT = PaperTable(
    name="text on the influence of numerical features",
    figures={
        "product": _read(("all", "text_only", "partial_text"), {NAVI: ((0.928, 0.010), (0.902, 0.014), (0.888, 0.015))})
    },
)
TABLES = (
    GENERATIVE,
    RECONSTRUCTION,
    ROBUSTNESS,
    CLUSTERING,
    VARIANTS,
    CLASSIFICATION,
    PIPELINES,
    ROUTING,
    COLUMNS_KEPT,
)
"""Every table of the paper's evaluation, and what stands in its text."""
SETTINGS: Mapping[str, str | float | int] = {
    "backbone": "bert-base-uncased",
    "alignment.weight": 0.0125,
    "alignment.temperature_low": 0.1,
    "alignment.temperature_high": 0.02,
    "masking.header_share": 0.4,
    "masking.value_share": 0.4,
    "sampler.rows_per_batch": 32,
    "training.epochs": 2,
    "training.learning_rate": 3e-5,
    "training.weight_decay": 0.01,
}
"""Hyper-parameters that the paper states, by what a run's settings call them."""
