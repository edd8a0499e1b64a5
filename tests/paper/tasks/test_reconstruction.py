import numpy as np
import pytest

from navi_paper.tasks.reconstruction import run


def test_who_sees_through_the_mask_reconstructs_everything(bench, encoders):
    outcome = run(encoders.oracle, bench)
    assert len(outcome.measures) == 2 * 3 * 4
    assert all(value == pytest.approx(1.0, abs=1e-6) for value in outcome.measures.values())


def test_quartiles_are_those_of_the_cosines(bench, encoders):
    class Half(encoders.Oracle):
        def reconstruct(self, arrays, rows, hidden):
            return np.linspace(0, 1, int(hidden.cells.sum()), dtype=np.float32)

    measures = run(Half(), bench).measures
    assert measures["test_value_q1"] == pytest.approx(0.25)
    assert measures["test_value_median"] == pytest.approx(0.5)
    assert measures["test_value_q3"] == pytest.approx(0.75)


def test_a_sample_of_the_cosines_is_kept(bench, encoders, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.reconstruction.MAX_KEPT", 7)
    arrays = run(encoders.oracle, bench).arrays
    assert {name: array.shape for name, array in arrays.items()} == {
        f"{split}_{what}": (7,) for split in ("test", "unseen") for what in ("value", "header_informed", "header_blind")
    }


def test_a_model_that_loses_what_is_masked_reconstructs_less(bench, navi_tables):
    measures = run(navi_tables, bench).measures
    assert measures["test_value_median"] < 0.99
    assert measures["test_header_blind_median"] < measures["test_header_informed_median"]
