from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from navi_paper.gold import Gold
from navi_paper.tasks.row_vectors import ROW_VECTORS
from navi_paper.tasks.text_vectors import TEXT_VECTORS


@pytest.fixture(scope="module")
def outcome(bench, encoders):
    return TEXT_VECTORS.run(encoders.oracle, bench)


def test_rows_and_labels_are_those_of_the_row_vectors(bench, encoders, outcome):
    kept = ROW_VECTORS.run(encoders.oracle, bench).arrays
    assert np.array_equal(outcome.arrays["row"], kept["row"])
    assert np.array_equal(outcome.arrays["labels"], kept["labels"])


def test_a_vector_is_the_mean_of_the_cells_that_are_texts_and_not_hidden(bench, encoders, outcome):
    headers = bench.corpus.headers.to_pylist()
    texts = {"alpha": ("title", "country", "language"), "beta": ("name", "country", "color")}
    for row, vector in zip(outcome.arrays["row"], outcome.arrays["vectors"], strict=True):
        table = bench.corpus.tables[bench.corpus.arrays.row_table[row]]
        # The oracle embeds a cell as its header, whatever the part.
        expected = encoders.oracle.draw([headers.index(header) for header in texts[table]]).mean(axis=0)
        assert vector == pytest.approx(expected, abs=2e-3)


def test_without_labelled_rows_nothing_is_kept(bench, encoders):
    nothing = replace(bench, gold=Gold(labels={"classes": [], "tables": {}}))
    outcome = TEXT_VECTORS.run(encoders.oracle, nothing)
    assert outcome.measures == {"rows": 0.0}
    assert not outcome.arrays
