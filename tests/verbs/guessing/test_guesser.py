from __future__ import annotations

import numpy as np
import pytest

from navi.errors import ConfigError
from navi.verbs.guessing import Blend, Gaps, GuessConfig, Guesser
from navi.verbs.guessing.blend import COMPANION, MODEL, PRIOR, VOTES
from navi.verbs.heldout import hide_cells

ROWS = [
    {"title": f"film {n}", "genre": ("drama", "comedy")[n % 2], "color": ("red", "blue")[n % 2], "year": str(1990 + n)}
    for n in range(40)
]


@pytest.fixture(scope="module")
def encoded(navi):
    return navi.encode(ROWS)


def make_guesser(navi, encoded, **settings):
    rows = settings.pop("rows", np.arange(0, 30))
    return Guesser(navi.runner, encoded, navi.tokenizer, rows=rows, domain=navi.domain, max_tokens=8, **settings)


def find_column(encoded, header):
    return [encoded.headers[int(h)].as_py() for h in encoded.arrays.column_header].index(header)


def ask(encoded, header, rows):
    return Gaps(row=np.array(rows), column=np.full(len(rows), find_column(encoded, header)))


def test_the_value_that_goes_with_the_row_is_ranked_first(navi, encoded):
    guesses = make_guesser(navi, encoded).rank(ask(encoded, "genre", [30, 31, 32, 33]))
    assert guesses.texts == ("drama", "comedy", "drama", "comedy")
    assert (guesses.raw > 0.5).all()
    assert (guesses.raw < 1).all()


def test_without_weight_for_the_model_it_is_not_asked(navi, encoded, monkeypatch):
    guesser = make_guesser(navi, encoded, blend=Blend(model=0.0))
    monkeypatch.setattr(navi.runner, "run", None)
    assert guesser.rank(ask(encoded, "genre", [30, 31])).texts == ("drama", "comedy")


def test_the_order_of_the_gaps_does_not_matter(navi, encoded):
    guesser = make_guesser(navi, encoded)
    hidden = hide_cells(encoded.arrays, np.arange(30, 40), 12, seed=0)
    order = np.random.default_rng(0).permutation(len(hidden.gaps))
    first, second = guesser.rank(hidden.gaps), guesser.rank(hidden.gaps.take(order))
    assert [first.texts[place] for place in order] == list(second.texts)
    np.testing.assert_allclose(first.raw[order], second.raw, atol=1e-5)


def test_values_are_weighed_in_parts_as_they_are_at_once(navi, encoded, monkeypatch):
    hidden = hide_cells(encoded.arrays, np.arange(30, 40), 12, seed=0)
    whole = make_guesser(navi, encoded).rank(hidden.gaps)
    monkeypatch.setattr("navi.verbs.guessing.weighing.VALUES_AT_ONCE", 20)
    parts = make_guesser(navi, encoded).rank(hidden.gaps)
    assert whole.texts == parts.texts
    np.testing.assert_allclose(whole.raw, parts.raw, atol=1e-5)


def test_the_evidence_is_what_it_says(navi, encoded):
    guesser = make_guesser(navi, encoded, blend=Blend(model=0.5))
    gaps = ask(encoded, "genre", [30])
    [(_, [evidence])] = guesser._evidence.collect(gaps, guesser.blend)
    values = guesser.columns[int(gaps.column[0])].values
    drama, comedy = values.texts.index("drama"), values.texts.index("comedy")
    assert values.count[[drama, comedy]].tolist() == [15, 15]
    assert evidence[PRIOR, drama] == pytest.approx(np.log(values.weigh(5.0)[drama]))
    assert evidence[VOTES, drama] > np.log(0.8)
    assert evidence[VOTES, comedy] < np.log(0.2)
    assert evidence[COMPANION, drama] > evidence[COMPANION, comedy]
    assert evidence[MODEL, drama] < 0


def test_choices_hold_the_evidence_and_the_truth(navi, encoded):
    guesser = make_guesser(navi, encoded, blend=Blend(model=0.0))
    tokens = guesser.columns[find_column(encoded, "genre")].values
    gaps = ask(encoded, "genre", [30, 31])
    first, second = guesser.list_choices(gaps, [tokens.tokens[tokens.texts.index("drama")], (1, 2, 3)])
    assert guesser.blend.weigh(first.evidence, first.unseen).argmax() == first.truth
    assert second.truth == second.evidence.shape[1]


def test_only_open_columns_are_generated(navi, encoded):
    guesser = make_guesser(navi, encoded)
    assert guesser.generate(ask(encoded, "genre", [30])).tokens == ((),)
    found = guesser.generate(ask(encoded, "title", [30, 31]))
    assert all(found.tokens)
    assert (found.raw > 0).all()
    assert (found.raw < 1).all()
    assert all(text is None or text.strip() == text for text in found.texts)


def test_generation_can_be_switched_off(navi, encoded):
    guesser = make_guesser(navi, encoded, config=GuessConfig(generate_above=None))
    assert guesser.generate(ask(encoded, "title", [30])).tokens == ((),)


def test_a_column_that_no_evidence_row_fills_has_only_what_training_knew(navi, encoded):
    guesser = make_guesser(navi, encoded, rows=np.zeros(0, np.int64))
    found = guesser.rank(ask(encoded, "title", [30]))
    known = {line["value"] for line in navi.domain.values.to_pylist() if line["attribute"] == "title"}
    assert found.texts[0] is None or found.texts[0] in known


@pytest.mark.parametrize("model", [0.0, 0.5])
def test_a_column_of_which_nothing_is_known_has_no_guess(navi, encoded, model):
    rows = np.zeros(0, np.int64)
    guesser = Guesser(navi.runner, encoded, navi.tokenizer, rows=rows, max_tokens=8, blend=Blend(model=model))
    gaps = ask(encoded, "title", [30])
    assert guesser.rank(gaps).texts == (None,)
    assert guesser.generate(gaps).tokens == ((),)
    assert guesser.list_choices(gaps, [(1,)]) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbours": 0}, "neighbours must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"coverage": 1.5}, "coverage must lie between 0 and 1, got 1.5"),
        ({"generate_above": -0.1}, "generate_above must lie between 0 and 1, got -0.1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        GuessConfig(**settings)
