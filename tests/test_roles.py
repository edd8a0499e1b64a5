"""How diverse a column is, and the role that gives it, against plain computations of the paper's definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import floor, isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import ROLE_HIGH, ROLE_LOW, ROLE_MID, ROLES, PrepareConfig, RowEncoder, prepare
from navi.corpus.roles import assign_roles, measure_entropy

VALUES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60)
ENTROPIES = st.lists(st.floats(0, 1).map(lambda entropy: round(entropy, 2)), min_size=1, max_size=30)
NORMALISATIONS = st.sampled_from(["rows", "distinct"])
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["title", "year", "genre", "cast"]), st.sampled_from("abcd"), min_size=1),
    min_size=1,
    max_size=25,
)


def compute_entropy(values, normalise="rows"):
    """H = -sum p log p over the values' shares p, divided by the most that H can be."""
    shares = [count / len(values) for count in Counter(values).values()]
    most = log(len(values) if normalise == "rows" else len(shares))
    return -sum(share * log(share) for share in shares) / most if most else 0.0


def compute_quantile(numbers, share):
    """The quantile that lies linearly between the two nearest numbers."""
    ordered, place = sorted(numbers), share * (len(numbers) - 1)
    below = floor(place)
    above = min(below + 1, len(numbers) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def compute_role(entropy, entropies, theta_low, theta_high):
    known = [each for each in entropies if not isnan(each)]
    if isnan(entropy):
        return "mid"
    is_low = entropy <= compute_quantile(known, theta_low)
    is_high = entropy >= compute_quantile(known, theta_high)
    if is_low and is_high:
        return "low" if entropy < 0.5 else "high"
    return "low" if is_low else "high" if is_high else "mid"


def measure(values, normalise="rows"):
    counts = np.array(list(Counter(values).values()))
    return measure_entropy(np.zeros(len(counts), np.int64), counts, 1, normalise)[0]


@given(VALUES, NORMALISATIONS)
def test_entropy_is_that_of_its_definition(values, normalise):
    assert measure(values, normalise) == pytest.approx(compute_entropy(values, normalise), abs=1e-9)


@given(st.integers(2, 1000), NORMALISATIONS)
def test_entropy_is_exactly_0_for_one_repeated_value_and_1_for_values_all_different(count, normalise):
    assert (measure(["same"] * count, normalise), measure(range(count), normalise)) == (0, 1)


@given(VALUES, st.randoms())
def test_entropy_ties_whatever_the_order_of_values(values, random):
    assert measure(values) == measure(random.sample(values, len(values)))


def test_fifty_fifty_flag_is_diverse_only_by_distinct_values():
    flags = ["yes", "no"] * 50
    assert measure(flags, "distinct") == 1
    assert measure(flags, "rows") == pytest.approx(log(2) / log(100))


def test_column_without_cells_has_no_entropy():
    entropy = measure_entropy(np.array([0, 2]), np.array([3, 0]), 3)
    assert np.isnan(entropy).tolist() == [False, True, True]


@given(ENTROPIES, st.floats(0, 0.5), st.floats(0.5, 1))
def test_roles_are_those_of_the_quantiles(entropies, theta_low, theta_high):
    roles = assign_roles(np.array(entropies), theta_low, theta_high)
    quantiles = np.quantile(entropies, [theta_low, theta_high])
    expected = [compute_role(entropy, entropies, theta_low, theta_high) for entropy in entropies]
    # A quantile that lies on an entropy up to rounding may fall on either side of it.
    clear = np.abs(np.subtract.outer(entropies, quantiles)).min(axis=1) > 1e-9
    exact = np.isin(entropies, [min(entropies), max(entropies)])
    for role, wanted in zip(roles[clear | exact], np.array(expected)[clear | exact], strict=True):
        assert ROLES[role] == wanted


@given(ENTROPIES, st.floats(0, 0.5), st.floats(0.5, 1))
def test_columns_that_tie_share_a_role_and_both_ends_are_taken(entropies, theta_low, theta_high):
    roles = assign_roles(np.array(entropies), theta_low, theta_high)
    assert len(set(zip(entropies, roles.tolist(), strict=True))) == len(set(entropies))
    assert roles[np.argmin(entropies)] == ROLE_LOW or min(entropies) >= 0.5
    assert roles[np.argmax(entropies)] == ROLE_HIGH or max(entropies) < 0.5


def test_a_single_column_is_low_below_one_half_and_one_without_entropy_is_mid_and_does_not_count():
    for entropy, role in ((0.0, ROLE_LOW), (0.49, ROLE_LOW), (0.5, ROLE_HIGH), (1.0, ROLE_HIGH), (np.nan, ROLE_MID)):
        assert assign_roles(np.array([entropy]), 0.05, 0.95).tolist() == [role]
    entropy = np.array([np.nan, 0.1, 0.5, 0.9])
    assert assign_roles(entropy, 0.05, 0.95).tolist() == [ROLE_MID, ROLE_LOW, ROLE_MID, ROLE_HIGH]


def read_columns(encoded):
    """Return entropy and role of each column, by table and header."""
    arrays, headers = encoded.arrays, encoded.headers.to_pylist()
    return {
        (encoded.tables[table], headers[header]): (encoded.columns.entropy[column], ROLES[arrays.column_role[column]])
        for column, (table, header) in enumerate(zip(arrays.column_table, arrays.column_header, strict=True))
    }


@given(st.lists(ROWS, min_size=1, max_size=3), NORMALISATIONS, st.sampled_from([(0.05, 0.95), (0.4, 0.6), (0.0, 1.0)]))
def test_columns_of_tables_have_the_entropy_and_role_of_their_values(
    word_tokenizer, make_chunk, tables, normalise, theta
):
    config = PrepareConfig(normalise=normalise, theta_low=theta[0], theta_high=theta[1])
    chunks = {str(number): [make_chunk(rows[:7]), make_chunk(rows[7:])] for number, rows in enumerate(tables)}
    found = read_columns(RowEncoder(word_tokenizer, config).encode(chunks))
    for number, rows in enumerate(tables):
        headers = sorted({header for row in rows for header in row})
        values = {header: [row[header] for row in rows if header in row] for header in headers}
        entropy = {header: compute_entropy(values[header], normalise) for header in headers}
        for header in headers:
            assert found[str(number), header][0] == pytest.approx(entropy[header], abs=1e-9)
        measured = [found[str(number), header][0] for header in headers]
        assert [found[str(number), header][1] for header in headers] == [
            compute_role(each, measured, *theta) for each in measured
        ]


def test_rows_that_are_held_out_do_not_count(prepare_config, write_tables, tmp_path):
    values = [f"kind {number % 7}" for number in range(60)]
    rows = [{"title": f"film {number}", "kind": value} for number, value in enumerate(values)]
    corpus = prepare([write_tables(tmp_path / "in", {"amber": rows})], tmp_path / "out", prepare_config)
    trained = [values[row] for row in corpus.rows_of("train")]
    found = read_columns(corpus)["amber", "kind"][0]
    assert found == pytest.approx(compute_entropy(trained))
    assert found != pytest.approx(compute_entropy(values))


def test_all_rows_of_an_unseen_table_count(prepare_config, write_tables, tmp_path):
    rows = [{"title": f"film {number}", "kind": f"kind {number % 7}"} for number in range(60)]
    config = replace(prepare_config, unseen_tables=("amber",))
    corpus = prepare([write_tables(tmp_path / "in", {"amber": rows, "birch": rows})], tmp_path / "out", config)
    found = read_columns(corpus)["amber", "kind"][0]
    assert found == pytest.approx(compute_entropy([row["kind"] for row in rows]))
