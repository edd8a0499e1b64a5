"""Tests of splits, unseen tables and sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import PrepareConfig
from navi.corpus.splits import (
    TEST,
    TRAIN,
    VALIDATION,
    choose_largest,
    choose_unseen,
    sample_rows,
    share_rows,
    split_rows,
)
from navi.errors import ConfigError

CONFIG = PrepareConfig()
HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50)
SIZES = st.dictionaries(st.text(alphabet="abcdef", min_size=1), st.integers(1, 1000), min_size=1, max_size=8)


def draw_hashes(count):
    return np.random.default_rng(0).integers(0, 2**64, count, dtype=np.uint64)


def test_splits_are_eight_to_one_to_one():
    shares = np.bincount(split_rows(draw_hashes(100_000), CONFIG)) / 100_000
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.005)


def test_shares_of_nothing_leave_everything_to_train():
    config = replace(CONFIG, validation_share=0.0, test_share=0.0)
    assert set(split_rows(draw_hashes(1000), config).tolist()) == {TRAIN}


def test_shares_can_be_set_apart():
    config = replace(CONFIG, validation_share=0.5, test_share=0.0)
    assert set(split_rows(draw_hashes(1000), config).tolist()) == {TRAIN, VALIDATION}
    config = replace(CONFIG, validation_share=0.0, test_share=0.5)
    assert set(split_rows(draw_hashes(1000), config).tolist()) == {TRAIN, TEST}


@given(HASHES, st.randoms())
def test_split_of_a_row_ignores_the_other_rows_and_their_order(hashes, random):
    alone = {each: split_rows(np.array([each], np.uint64), CONFIG)[0] for each in hashes}
    shuffled = random.sample(hashes, len(hashes))
    assert [alone[each] for each in shuffled] == split_rows(np.array(shuffled, np.uint64), CONFIG).tolist()


def test_seed_changes_the_splits():
    hashes = draw_hashes(1000)
    assert (split_rows(hashes, CONFIG) != split_rows(hashes, replace(CONFIG, seed=1))).mean() > 0.2


def test_unseen_tables_can_be_named():
    config = replace(CONFIG, unseen_tables=("b",))
    assert choose_unseen(["a", "b", "c"], config) == {"b"}


def test_unseen_tables_can_be_drawn_whatever_the_order_of_tables():
    tables = [f"table {number}" for number in range(20)]
    config = replace(CONFIG, unseen_tables=5)
    drawn = choose_unseen(tables, config)
    assert len(drawn) == 5
    assert choose_unseen(tables[::-1], config) == drawn
    assert choose_unseen(tables, replace(config, seed=1)) != drawn


def test_unknown_unseen_table_is_named():
    config = replace(CONFIG, unseen_tables=("gone", "a"))
    with pytest.raises(
        ConfigError, match=r"unseen_tables names gone, which no table kept is called. The tables are a, b"
    ):
        choose_unseen(["b", "a"], config)


@pytest.mark.parametrize("unseen", [2, 3, ("a", "b")])
def test_some_table_must_be_left_to_train_on(unseen):
    with pytest.raises(ConfigError, match="leaves no table to train on: 2 of 2 are unseen"):
        choose_unseen(["a", "b"], replace(CONFIG, unseen_tables=unseen))


def test_largest_tables_are_chosen_by_rows_then_name():
    assert choose_largest({"d": 5, "c": 9, "b": 5, "a": 1}, 2) == {"c", "b"}
    assert choose_largest({"a": 1, "b": 2}, None) == {"a", "b"}


@given(SIZES, st.integers(1, 5000))
def test_shares_add_up_and_stay_in_proportion(rows, total):
    quotas = share_rows(rows, total)
    available = sum(rows.values())
    assert sum(quotas.values()) == min(total, available)
    for name, quota in quotas.items():
        assert abs(quota - rows[name] * min(total, available) / available) < 1


def test_without_a_total_every_row_stays():
    assert share_rows({"a": 3, "b": 4}, None) == {"a": 3, "b": 4}


@given(HASHES, st.data())
def test_sampling_keeps_the_number_asked_for_and_grows_with_it(hashes, data):
    count = data.draw(st.integers(0, len(hashes)))
    array = np.array(hashes, np.uint64)
    stay = sample_rows(array, count, seed=0)
    assert stay.sum() == count
    assert (stay <= sample_rows(array, min(count + 1, len(hashes)), seed=0)).all()


def test_sampling_ignores_the_order_of_rows():
    hashes = draw_hashes(100)
    assert set(hashes[sample_rows(hashes, 30, 0)]) == set(hashes[::-1][sample_rows(hashes[::-1], 30, 0)])
