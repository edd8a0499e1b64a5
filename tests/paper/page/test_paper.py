from __future__ import annotations

import pytest

from navi.report import Number
from navi_paper.page import paper
from navi_paper.page.layout import KNOWN


@pytest.mark.parametrize(
    ("table", "corpus", "model", "measure", "figure"),
    [
        (paper.GENERATIVE, "product", "bert", "header", Number(0.94)),
        (paper.GENERATIVE, "movie", "navi-paper", "value", Number(0.7077)),
        (paper.GENERATIVE, "product", "navi-paper-without_alignment", "value", Number(0.7977)),
        (paper.RECONSTRUCTION, "movie", "cm2", "q3", Number(0.2578)),
        (paper.ROBUSTNESS, "product", "navi-paper", "permuted", Number(0.9997, change=0.0002)),
        (paper.ROBUSTNESS, "movie", "tapas", "synonyms", Number(0.2472, change=-0.0561)),
        (paper.CLUSTERING, "movie", "navi-paper", "b3_f1", Number(0.7996)),
        (paper.VARIANTS, "movie", "bert", "silhouette", Number(0.26)),
        (paper.CLASSIFICATION, "movie", "tapas", "tabpfn", Number(0.688, 0.017)),
        (paper.CLASSIFICATION, "product", "navi-paper-without_attributes", "lr", Number(0.854, 0.026)),
        (paper.PIPELINES, "product", paper.NAVI_FE, "xgboost", Number(0.944, 0.017)),
        (paper.ROUTING, "movie", "navi-paper-random_routing", "xgboost", Number(0.592, 0.022)),
        (paper.COLUMNS_KEPT, "product", "navi-paper", "partial_text", Number(0.888, 0.015)),
    ],
)
def test_figures_are_the_papers(table, corpus, model, measure, figure):
    assert table.find(corpus, model, measure) == figure


def test_what_the_paper_does_not_have_is_none():
    assert paper.PIPELINES.find("movie", paper.TABLE_VECTORIZER, "tabpfn") is None
    assert paper.CLUSTERING.find("feeds", "bert", "nmi") is None
    assert paper.CLUSTERING.find("movie", "navi", "nmi") is None


def test_models_are_called_as_in_results():
    models = {model for table in paper.TABLES for figures in table.figures.values() for model in figures}
    assert models - {paper.RAW, paper.TABLE_VECTORIZER, paper.NAVI_FE} <= set(KNOWN)


@pytest.mark.parametrize("corpus", paper.CORPORA)
def test_losses_are_those_of_the_accuracies(corpus):
    # The paper rounds its accuracies, and one of its losses is a hundredth of a per cent off.
    for figures in paper.ROBUSTNESS.figures[corpus].values():
        for name, each in figures.items():
            if name != "default":
                lost = each.value / figures["default"].value - 1
                assert each.change == pytest.approx(lost, abs=0.0006)


def test_a_corpus_is_known_by_its_name():
    assert paper.GENERATIVE.find("Movie-2024", "bert", "value") == Number(0.6889)
    assert paper.GENERATIVE.list_models("movie")[:2] == ("bert", "tapas")
    assert paper.GENERATIVE.list_models("feeds") == ()
