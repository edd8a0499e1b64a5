"""The laws behind imputed values: what candidates are, how likely the best one is, and how far off that is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from navi.training import Domain
from navi.verbs import candidate_values
from navi.verbs.candidate_values import CandidateFinder, Gaps, find_groups, fit_priors

FILMS = [
    {"title": "dark city", "genre": "horror", "director": "man", "country": "usa"},
    {"title": "dark night", "genre": "horror", "director": "man", "country": "USA"},
    {"title": "love", "genre": "comedy", "director": "king", "country": "uk"},
    {"title": "love day", "genre": "comedy", "director": "king", "country": "uk"},
    {"title": "dark house", "genre": "horror", "director": "man"},
    {"year": "1999"},
]


@pytest.fixture(scope="module")
def encoded(navi):
    return navi.encode({"films": FILMS, "others": [{"title": "dark house", "country": "french"}]})


def find(encoded, header, rows, domain=None, evidence=None, hidden=()):
    """Return the candidates of cells of one column of films."""
    arrays = encoded.arrays
    texts = encoded.headers.take(pa.array(arrays.column_header)).to_pylist()
    [column] = [n for n, text in enumerate(texts) if text == header and arrays.column_table[n] == 0]
    gaps, beside = (Gaps(row=np.array(some, np.int64), column=np.full(len(some), column)) for some in (rows, hidden))
    return list(CandidateFinder(encoded, domain, evidence, beside).find(gaps))


def read_best(candidates):
    return [candidates.values.texts[value] for value in candidates.best]


def make_probability(share):
    odds = candidate_values.STEEPNESS * np.log(share / (1 - share)) - candidate_values.OPTIMISM
    return pytest.approx(1 / (1 + np.exp(-odds)))


def test_candidates_are_the_values_of_the_column_case_aside_and_of_its_table_alone(encoded):
    [found] = find(encoded, "country", [4], evidence=np.arange(6))
    assert set(found.values.texts) == {"USA", "uk"}
    assert found.values.share.tolist() == [0.5, 0.5]


def test_candidates_are_also_what_training_knew_written_as_the_column_writes_it(navi):
    rows = [{"runtime": f"{n} min", "Genre": "Drama"} for n in range(90, 100)]
    values = {
        "attribute": ["genre", "genre", "runtime", "runtime"],
        "value": ["drama", "horror", "88", "two hours"],
        "count": [5, 3, 2, 1],
    }
    domain = Domain(values=pa.table(values))
    encoded = navi.encode(rows)
    [genre] = find(encoded, "Genre", [0], domain)
    assert genre.values.texts == ("Drama", "horror")
    assert genre.values.own.tolist() == [True, False]
    assert genre.values.share.tolist() == pytest.approx([(10 + 5 * 5 / 8) / 15, 5 * 3 / 8 / 15])
    [runtime] = find(encoded, "runtime", [0], domain)
    assert "88 min" in runtime.values.texts
    assert "two hours" not in runtime.values.texts


def test_the_other_cell_that_says_most_is_heard_and_says_where(encoded):
    # The director was met with one country alone; the year of the last row with none.
    [found] = find(encoded, "country", [4, 5])
    assert read_best(found) == ["USA", "uk"]
    headers = encoded.headers.to_pylist()
    assert headers[found.header[0]] in ("genre", "director")
    assert (found.beside.tolist(), found.agree.tolist(), found.example.tolist()) == ([2, 0], [2, 0], [0, -1])
    assert found.header[1] == -1
    assert found.probability[0] > found.probability[1]
    assert found.probability[1] == make_probability(0.5)


def test_hidden_cells_and_rows_that_are_no_evidence_are_out_of_sight(encoded):
    [some] = find(encoded, "country", [4], evidence=np.array([2, 3]))
    assert some.values.texts == ("uk",)
    [rest] = find(encoded, "country", [4], hidden=[0])
    assert dict(zip(rest.values.texts, rest.values.share, strict=True)) == pytest.approx({"USA": 1 / 3, "uk": 2 / 3})
    assert find(encoded, "country", [4], evidence=np.array([5])) == []


def list_pairs(rows):
    """Return place, value and header of each pair of an other cell and a value, of rows (value, other, other ...)."""
    cells = sorted({(column, cell) for row in rows for column, cell in enumerate(row[1:])})
    place = np.array([cells.index((column, cell)) for row in rows for column, cell in enumerate(row[1:])])
    value = np.array([row[0] for row in rows for _ in row[1:]])
    return place, value, np.array([column for column, _ in cells])


def test_a_column_that_decides_another_outweighs_its_shares_and_one_that_says_nothing_does_not():
    rng = np.random.default_rng(0)
    rows = [(key % 5, key, rng.integers(10)) for key in rng.integers(20, size=400)]
    place, value, header = list_pairs(rows)
    prior = fit_priors(place, value, np.repeat(np.arange(400), 2), header, np.full(5, 0.2))
    assert prior[header == 0].max() == candidate_values.PRIOR_CELLS.min()
    assert prior[header == 1].min() > 50


@pytest.mark.parametrize(("by", "is_trusted"), [("row", True), ("group", False)])
def test_what_agrees_only_within_a_group_is_worth_nothing_where_whole_groups_are_missing(by, is_trusted):
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 5)
    rows = [(int(rng.integers(10)), number // 3) for number in range(60)]
    place, value, header = list_pairs([rows[number] for number in entity])
    prior = fit_priors(place, value, entity if by == "group" else np.arange(300), header, np.full(10, 0.1))
    assert (prior < 10).all() == is_trusted


def test_whole_groups_are_missing_where_gaps_lack_a_companion_that_known_rows_have():
    header_of = np.zeros(9, np.int32)
    cell, segment = np.arange(6), np.array([0, 0, 1, 1, 2, 2])
    assert find_groups(cell, segment, np.array([3, 4]), header_of).tolist() == [6, 6, 7, 7, 8, 8]
    assert find_groups(cell, segment, np.array([0, 1]), header_of).tolist() == list(range(6))
