from __future__ import annotations

import numpy as np
import pytest

from navi.verbs.guessing.valueset import gather_values

OWN = [(10, "Drama", (1,), 3), (11, "drama", (1,), 1), (12, "Comedy", (2,), 2), (13, "Sci-Fi", (3, 4), 1)]
KNOWN = [("DRAMA", (1,), 50), ("Western", (5,), 50)]


def test_texts_with_the_same_tokens_are_one_value_in_the_column_s_commonest_spelling():
    values = gather_values(OWN, KNOWN, 100)
    assert values.texts == ("Drama", "Comedy", "Sci-Fi", "Western")
    assert values.count.tolist() == [4, 2, 1, 0]
    assert values.number == {10: 0, 11: 0, 12: 1, 13: 2}
    assert values.lengths.tolist() == [1, 1, 2, 1]


def test_training_counts_as_much_as_it_is_told_to():
    weights = gather_values(OWN, KNOWN, 100).weigh(training_cells=3.0)
    assert weights.tolist() == pytest.approx([5.5 / 10, 2 / 10, 1 / 10, 1.5 / 10])


def test_of_too_many_values_the_rarest_are_left_out():
    values = gather_values(OWN, KNOWN, 2)
    assert values.texts == ("Drama", "Comedy")
    assert 13 not in values.number


def test_a_column_of_different_values_expects_another_new_one():
    different = gather_values([(n, str(n), (n,), 1) for n in range(50)], [], 100)
    repeated = gather_values([(n, str(n), (n,), 10) for n in range(5)], [], 100)
    assert different.unseen > 0.95
    assert repeated.unseen < 0.05


def test_no_values_weigh_nothing():
    values = gather_values([], [], 10)
    assert len(values) == 0
    assert values.weigh(5.0).tolist() == []
    assert 0 < values.unseen < 1
    assert np.array_equal(values.lengths, [])
