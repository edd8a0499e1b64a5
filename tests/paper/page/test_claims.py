from __future__ import annotations

import pytest

from navi_paper.page.averages import Averages
from navi_paper.page.claims import compare_with_bert, list_claims, show_claims
from navi_paper.results import Record, Results


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def add(results, model, task, **measures):
    results.add(Record(corpus="movie", task=task, model=model, seed=0, digest="", measures=measures))


def find_claims(results):
    return {claim.text: claim for claim in list_claims(Averages(results), "movie")}


@pytest.mark.parametrize(("navi", "holds"), [(0.8188, True), (0.818, False)])
def test_a_margin_must_be_the_papers(results, navi, holds):
    add(results, "bert", "generative", test_value_token=0.8)
    add(results, "navi", "generative", test_value_token=navi)
    (row,) = compare_with_bert(Averages(results), "movie").rows
    assert row[0] == "Value"
    assert row[-1] is holds
    assert row[-2] == pytest.approx(0.7077 - 0.6889)


@pytest.mark.parametrize(("navi", "holds"), [(0.51, True), (0.5, False), (0.4, False)])
def test_where_the_paper_has_none_any_margin_will_do(results, navi, holds):
    add(results, "bert", "naming", permuted_top1=0.5)
    add(results, "navi", "naming", permuted_top1=navi)
    (row,) = compare_with_bert(Averages(results), "movie").rows
    assert row[-1] is holds


def test_without_both_models_nothing_is_claimed(results):
    add(results, "navi", "naming", permuted_top1=0.5)
    (row,) = compare_with_bert(Averages(results), "movie").rows
    assert row[-1] is None


def test_cells_where_a_baseline_is_ahead_are_counted(results):
    for model, nmi, b3 in (("tapas", 0.5, 0.9), ("navi", 0.6, 0.8)):
        add(results, model, "clustering", test_headers_nmi=nmi, test_headers_b3_f1=b3)
    claim = find_claims(results)["NAVI ahead of TAPAS in predicting and clustering"]
    assert (claim.holding, len(claim.margins)) == (1, 2)


@pytest.mark.parametrize(("permuted", "holding"), [(0.9005, 1), (0.9, 1), (0.898, 0)])
def test_permuted_columns_may_change_next_to_nothing(results, permuted, holding):
    add(results, "navi", "robustness", informed_default_token=0.9, informed_permuted_token=permuted)
    assert find_claims(results)["NAVI's header accuracy unchanged (± 0.001) with columns permuted"].holding == holding


def test_losses_are_compared_with_those_of_bert(results):
    for model, loss in (("bert", 0.05), ("navi", 0.02)):
        add(results, model, "robustness", informed_typos_token=0.9, informed_typos_loss=loss)
    claim = find_claims(results)["NAVI loses less than BERT under synonyms and typos"]
    assert claim.margins == pytest.approx((0.03,))


def test_ablations_need_be_worse_only_where_the_paper_has_them_worse(results):
    # On Movie the paper's classification is better without alignment, so that cell claims nothing.
    for model, value in (("navi-paper", 0.5), ("navi-paper-without_alignment", 0.6)):
        add(results, model, "generative", test_value_token=value)
        add(results, model, "classification_xgboost", rows_f1=value)
    claim = find_claims(results)["NAVI (paper) ahead of w/o ESA (paper) where the paper says so"]
    assert claim.margins == pytest.approx((-0.1,))


def test_results_of_other_tasks_claim_nothing(results):
    add(results, "navi", "geometry", segments=5.0)
    assert show_claims(Averages(results)) is None
