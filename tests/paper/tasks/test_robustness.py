from dataclasses import replace

import numpy as np
import pytest

from navi_paper.encoder import list_cells, list_hidden_tokens
from navi_paper.gold import Gold
from navi_paper.tasks.robustness import draw_names, run


def test_who_knows_everything_loses_nothing(bench, encoders):
    measures = run(encoders.oracle, bench).measures
    views = ("default", "permuted", "synonyms", "typos", "synonyms_any", "typos_any")
    for protocol in ("informed", "blind"):
        assert {measures[f"{protocol}_{view}_token"] for view in views} == {1.0}
        assert {measures[f"{protocol}_{view}_loss"] for view in views[1:]} == {0.0}


def test_who_reads_the_order_loses_by_permutation_alone(bench, encoders):
    measures = run(encoders.order_reader, bench).measures
    assert measures["blind_default_token"] == 1.0
    assert measures["blind_permuted_loss"] > 0.3
    assert measures["blind_permuted_loss"] == pytest.approx(1 - measures["blind_permuted_token"])
    assert measures["blind_synonyms_loss"] == measures["blind_typos_any_loss"] == 0.0


def test_what_is_to_be_guessed_is_the_header_as_it_was(bench, encoders):
    asked = []

    class Recorder(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            true, _ = list_hidden_tokens(arrays, rows, hidden)
            asked.append(true.tolist())
            return true

    run(Recorder(), bench)
    default, permuted, *renamed = asked[:6]
    assert all(each == default for each in renamed)
    assert sorted(permuted) == sorted(default)


def test_who_leans_on_the_other_headers_loses_when_they_are_renamed(bench, encoders):
    known = len(bench.corpus.headers)

    class Leaner(encoders.Oracle):
        """Knows the hidden header as long as every header shown in the row is one of the corpus."""

        def predict(self, arrays, rows, hidden):
            true, lengths = list_hidden_tokens(arrays, rows, hidden)
            row_C, segments = list_cells(arrays, rows)
            strange = np.unique(row_C[(arrays.segment_header[segments] >= known) & ~hidden.cells])
            lost = np.isin(row_C[hidden.cells], strange)
            return np.where(np.repeat(lost, lengths), -1, true)

    measures = run(Leaner(), bench).measures
    assert measures["blind_permuted_loss"] == 0.0
    assert measures["blind_synonyms_loss"] > 0.0
    assert measures["blind_typos_any_loss"] > measures["blind_typos_loss"] > 0.0


def test_an_informed_encoder_is_told_the_attribute_of_the_new_header(bench, encoders):
    known = len(bench.corpus.attributes)
    told = []

    class Recorder(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            _, segments = list_cells(arrays, rows)
            told.append(bool((arrays.segment_attribute[segments][hidden.cells] >= known).any()))
            return super().predict(arrays, rows, hidden)

    run(Recorder(), bench)
    default, permuted, *_, typos_any = told[:6]
    assert not default
    assert not permuted
    assert typos_any


def test_without_synonyms_the_other_views_are_measured(bench, encoders):
    plain = replace(bench, gold=Gold())
    assert set(draw_names(plain)) == {"typos", "typos_any"}
    assert "blind_synonyms_token" not in run(encoders.oracle, plain).measures


def test_the_share_of_renamed_cells_is_told(bench, encoders):
    measures = run(encoders.oracle, bench).measures
    assert 0 < measures["typos_renamed"] < measures["typos_any_renamed"] < 1


def test_both_protocols_are_asked(bench, encoders):
    asked = []

    class Recorder(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            asked.append((hidden.part, hidden.blind))
            return super().predict(arrays, rows, hidden)

    run(Recorder(), bench)
    assert asked == [("header", False)] * 6 + [("header", True)] * 6
