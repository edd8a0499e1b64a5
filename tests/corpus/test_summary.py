"""Tests of what is known of each column."""

from __future__ import annotations

import numpy as np
import pytest

from navi.corpus.summary import TableCounter, join_columns

# Two pieces of one table: number, header, value, cells, cells that train of each segment.
FIRST = np.array([[0, 5, 0, 3, 2], [1, 3, 1, 1, 1], [2, 3, 0, 1, 0]]).T
SECOND = np.array([[0, 5, 0, 1, 1], [3, 3, 2, 2, 2]]).T
# Header, cells, value tokens, [UNK] among them, cut cells of each header.
FIRST_TOKENS = np.array([[3, 2, 6, 3, 1], [5, 3, 3, 0, 0]]).T
SECOND_TOKENS = np.array([[3, 2, 2, 0, 0], [5, 1, 5, 0, 0]]).T


def count():
    counter = TableCounter()
    counter.add(FIRST, FIRST_TOKENS, 4)
    counter.add(SECOND, SECOND_TOKENS, 4)
    return counter


def test_pieces_of_a_table_are_summed_up_by_column():
    columns = count().sum_up("rows")
    assert columns["header"].tolist() == [3, 5]
    assert columns["fill"].tolist() == [0.5, 0.5]
    assert columns["distinct"].tolist() == [3, 1]
    assert columns["mean_tokens"].tolist() == [2.0, 2.0]
    assert columns["unknown"].tolist() == [3 / 8, 0.0]
    assert columns["cut"].tolist() == [0.25, 0.0]


def test_entropy_counts_rows_that_train_alone():
    shares = np.array([1, 2]) / 3
    expected = -(shares * np.log(shares)).sum() / np.log(3)
    assert count().sum_up("rows")["entropy"] == pytest.approx([expected, 0])


def test_entropy_of_an_unseen_table_counts_all_rows():
    counter = count()
    counter.is_unseen = True
    shares = np.array([1, 1, 2]) / 4
    expected = -(shares * np.log(shares)).sum() / np.log(4)
    assert counter.sum_up("rows")["entropy"] == pytest.approx([expected, 0])


def test_examples_are_values_by_frequency_over_all_rows():
    assert count().sum_up("rows")["examples"].tolist() == [[2, 1, 0], [0, -1, -1]]


def test_no_tables_have_no_columns_of_the_right_types():
    columns = join_columns([])
    assert columns.role.dtype == np.int8
    assert columns.entropy.dtype == np.float64
    assert columns.examples.shape == (0, 3)
