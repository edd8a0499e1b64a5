"""The laws behind imputed values: what candidates are, what speaks for them, and how sure the best one is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from navi.training import Domain
from navi.verbs import candidate_values
from navi.verbs.calibration import Calibration, KnownCells, measure_reliability
from navi.verbs.candidate_values import CandidateFinder, Gaps
from navi.verbs.impute import fit_calibration, guess_cells, hide_cells

FILMS = [
    {"title": "dark city", "genre": "horror", "director": "man", "country": "usa"},
    {"title": "dark night", "genre": "horror", "director": "man", "country": "USA"},
    {"title": "love", "genre": "comedy", "director": "king", "country": "uk"},
    {"title": "love day", "genre": "comedy", "director": "king", "country": "uk"},
    {"title": "dark house", "genre": "horror", "director": "man"},
    {"year": "1999"},
]
KINDS = ("column", "votes", "nearness", "beside")


@pytest.fixture(scope="module")
def encoded(navi):
    return navi.encode({"films": FILMS, "others": [{"title": "dark house", "country": "french"}]})


def find_column(encoded, header, table=0):
    arrays = encoded.arrays
    texts = encoded.headers.take(pa.array(arrays.column_header)).to_pylist()
    [column] = [n for n, text in enumerate(texts) if text == header and arrays.column_table[n] == table]
    return column


def find(encoded, header, rows, domain=None, evidence=None):
    """Return the candidates of cells of one column of films."""
    gaps = Gaps(row=np.array(rows), column=np.full(len(rows), find_column(encoded, header)))
    return list(CandidateFinder(encoded, domain, evidence).find(gaps))


def read_evidence(candidates, cell, text):
    """Return what speaks for a value, as shares."""
    number = candidates.values.texts.index(text)
    [place] = np.flatnonzero(candidates.number[cell] == number)
    return dict(zip(KINDS, np.exp(candidates.evidence[cell, place]), strict=True))


def test_candidates_are_the_values_of_the_column_case_aside_and_of_its_table_alone(encoded):
    [found] = find(encoded, "country", [4])
    assert set(found.values.texts) == {"USA", "uk"}
    assert found.values.share.tolist() == [0.5, 0.5]


def test_candidates_are_also_what_training_knew_written_as_the_column_writes_it(navi):
    rows = [{"runtime": f"{n} min", "Genre": "Drama"} for n in range(90, 100)]
    values = {
        "attribute": ["genre", "genre", "runtime", "runtime"],
        "value": ["drama", "horror", "88", "two hours"],
        "count": [5, 3, 2, 1],
    }
    domain = Domain(headers=pa.table({"header": pa.array([], pa.string())}), values=pa.table(values))
    encoded = navi.encode(rows)
    [genre] = find(encoded, "Genre", [0], domain)
    assert genre.values.texts == ("Drama", "horror")
    assert genre.values.own.tolist() == [True, False]
    assert genre.values.share.tolist() == pytest.approx([(10 + 5 * 5 / 8) / 15, 5 * 3 / 8 / 15])
    [runtime] = find(encoded, "runtime", [0], domain)
    assert "88 min" in runtime.values.texts
    assert "two hours" not in runtime.values.texts


def test_the_nearest_rows_vote_with_the_cosine_of_their_tf_idf_vectors(encoded):
    def list_features(row):
        return [*" ".join(row.values()).lower().split(), *(f"{header}={value}" for header, value in row.items())]

    weigh = TfidfVectorizer(analyzer=list_features, sublinear_tf=True)
    rows = weigh.fit_transform(FILMS)
    cosines = (weigh.transform([FILMS[4]]) @ rows.T).toarray()[0, :4] ** candidate_values.SHARPNESS
    [found] = find(encoded, "country", [4])
    near = {text: read_evidence(found, 0, text) for text in ("USA", "uk")}
    floor = candidate_values.FLOOR
    assert near["USA"]["nearness"] == pytest.approx(floor + cosines[:2].sum(), abs=1e-9)
    assert near["uk"]["nearness"] == pytest.approx(floor + cosines[2:].sum(), abs=1e-9)
    assert near["USA"]["votes"] == pytest.approx(floor + cosines[:2].sum() / cosines.sum(), abs=1e-9)


def test_rows_that_share_nothing_and_rows_that_are_no_evidence_have_no_vote(encoded):
    [nothing] = find(encoded, "country", [5])
    assert read_evidence(nothing, 0, "USA")["nearness"] == pytest.approx(candidate_values.FLOOR)
    [some] = find(encoded, "country", [4], evidence=np.array([2, 3]))
    assert some.values.texts == ("uk",)


def test_the_other_cell_that_says_most_is_heard(encoded):
    # The director was met with one country alone; the year of the last row with none.
    [found] = find(encoded, "country", [4, 5])
    smooth = candidate_values.PRIOR_CELLS
    assert read_evidence(found, 0, "USA")["beside"] == pytest.approx((2 + smooth / 2) / (2 + smooth))
    assert read_evidence(found, 0, "uk")["beside"] == pytest.approx(smooth / 2 / (2 + smooth))
    assert read_evidence(found, 1, "USA")["beside"] == pytest.approx(0.5)


def test_values_are_weighed_in_blocks_as_they_are_at_once(navi, world, monkeypatch):
    encoded = navi.encode(world.catalogues[0].rows[:60])
    gaps, _ = hide_cells(encoded.arrays, np.arange(40, 60), 30, seed=0)
    whole = guess_cells(CandidateFinder(encoded, rows=np.arange(40)).find(gaps), len(gaps))
    monkeypatch.setattr(candidate_values, "BLOCK_CELLS", 2)
    parts = guess_cells(CandidateFinder(encoded, rows=np.arange(40)).find(gaps), len(gaps))
    assert whole.texts == parts.texts
    np.testing.assert_allclose(whole.probability, parts.probability, atol=1e-9)


def test_a_column_of_which_nothing_is_known_has_no_guess(encoded):
    gaps = Gaps(row=np.array([4]), column=np.array([find_column(encoded, "country")]))
    guesses = guess_cells(CandidateFinder(encoded, rows=np.array([5])).find(gaps), 1)
    assert (guesses.texts, guesses.probability.tolist()) == ([None], [0.0])


def test_hidden_cells_are_cells_of_their_rows_and_the_draw_is_its_seed_s(make_arrays):
    arrays = make_arrays(num_rows=60, cells=(1, 6))
    rows = np.arange(20, 60)
    gaps, values = hide_cells(arrays, rows, 1000, seed=0)
    assert len({*zip(gaps.row.tolist(), gaps.column.tolist(), strict=True)}) == len(gaps)
    sizes = np.diff(arrays.row_offsets)[rows]
    assert len(gaps) == sizes[sizes > 1].sum()
    for row, column, value in zip(gaps.row, gaps.column, values, strict=True):
        segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        here = segments[arrays.segment_header[segments] == arrays.column_header[column]]
        assert row in rows
        assert value in arrays.segment_value[here]
        assert arrays.column_table[column] == arrays.row_table[row]
    first, same, other = (hide_cells(arrays, rows, 10, seed=seed)[0].row.tolist() for seed in (1, 1, 2))
    assert first == same != other
    assert len(first) == 10


def make_cells(telling, strength=2.0, count=500, seed=0):
    """Cells whose right value mostly has the highest evidence of one kind; the other kinds are noise."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(size=(count, 5, 4))
    scores = np.column_stack([strength * evidence[:, :, telling], np.full(count, -1.0)])
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(6, p=line) for line in chances])
    return KnownCells(evidence=evidence, unseen=0.1, right=np.arange(5) == truth[:, None])


@pytest.mark.parametrize("telling", range(4))
def test_the_evidence_that_tells_gets_the_weight(telling):
    weights = np.abs(Calibration.fit([make_cells(telling)]).weights)
    assert weights.argmax() == telling
    assert weights[telling] > 4 * np.delete(weights, telling).max()


def test_a_calibration_is_reliable_on_cells_it_has_not_seen_and_says_how_much():
    calibration = Calibration.fit([make_cells(1, seed=0), make_cells(1, seed=1)])
    new = make_cells(1, seed=2)
    best, sure = calibration.answer(new.evidence, new.unseen)
    right = new.right[np.arange(len(best)), best]
    assert measure_reliability(sure, right).ece < 0.06
    assert calibration.reliability.ece < 0.06
    assert sum(calibration.reliability.count) == 1000
    usual = Calibration().answer(new.evidence, new.unseen)
    assert right.mean() > new.right[np.arange(len(best)), usual[0]].mean()


@pytest.mark.parametrize("is_right", [True, False])
def test_cells_that_are_all_right_or_all_wrong_give_the_probability_of_that(is_right):
    cells = KnownCells(evidence=np.zeros((50, 1, 4)), unseen=0.1, right=np.full((50, 1), is_right))
    _, sure = Calibration.fit([cells]).answer(cells.evidence, cells.unseen)
    assert abs(sure - is_right).max() == pytest.approx(1 / 52, abs=0.01)


def test_columns_may_have_one_cell_each_and_different_numbers_of_candidates():
    cells = make_cells(1, count=120)
    single = [
        KnownCells(evidence=evidence[None, : 2 + n % 4], unseen=0.1, right=right[None, : 2 + n % 4])
        for n, (evidence, right) in enumerate(zip(cells.evidence, cells.right, strict=True))
    ]
    assert sum(Calibration.fit(single).reliability.count) == 120
    assert Calibration.fit([]) == Calibration()


@settings(deadline=None)
@given(st.integers(1, 20), st.floats(0.001, 0.999), st.integers(0, 100))
def test_a_raw_probability_leaves_room_for_other_values_the_more_new_ones_are_expected(num_values, unseen, seed):
    evidence = np.random.default_rng(seed).normal(size=(3, num_values, 4))
    _, sure = Calibration().answer(evidence, unseen)
    assert ((sure > 0) & (sure < 1)).all()
    assert (Calibration().answer(evidence, min(1.0, 2 * unseen))[1] < sure).all()


def test_hidden_cells_of_a_table_are_right_as_often_as_they_are_sure(navi, world):
    encoded = navi.encode(world.catalogues[0].rows)
    rows = np.random.default_rng(0).permutation(encoded.arrays.num_rows)
    finder = CandidateFinder(encoded, navi.domain, rows[100:])
    gaps, values = hide_cells(encoded.arrays, rows[:100], 400, seed=0)
    truth = encoded.values.take(pa.array(values))
    calibration = fit_calibration(finder.find(gaps.take(np.arange(200))), truth)
    guesses = guess_cells(finder.find(gaps.take(np.arange(200, 400))), 200, calibration)
    right = np.array([a.lower() == b.lower() for a, b in zip(guesses.texts, truth.to_pylist()[200:], strict=True)])
    assert measure_reliability(guesses.probability, right).ece < 0.12
    assert right[guesses.probability > 0.5].mean() > 2 * right[guesses.probability < 0.5].mean()


def measure_ece_slowly(probability, correct, num_bins):
    """The mean over answers of the distance between confidence and accuracy of the answer's own bin."""
    total = 0.0
    for p in probability:
        inside = [
            (q, right)
            for q, right in zip(probability, correct, strict=True)
            if min(int(q * num_bins), num_bins - 1) == min(int(p * num_bins), num_bins - 1)
        ]
        total += abs(sum(q for q, _ in inside) / len(inside) - sum(right for _, right in inside) / len(inside))
    return total / len(probability) if probability else 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40), st.integers(1, 15))
def test_the_calibration_error_is_that_of_a_slow_count(answers, num_bins):
    probability, correct = [p for p, _ in answers], [right for _, right in answers]
    found = measure_reliability(np.array(probability), np.array(correct, dtype=bool), num_bins)
    assert found.ece == pytest.approx(measure_ece_slowly(probability, correct, num_bins), abs=1e-9)
    assert sum(found.count) == len(answers)
