"""Headers and values of a column as another source would have written them."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.columns import perturb_header, perturb_values
from navi.columns.quantities import parse_quantities

SEEDS = range(400)
COLUMNS = {
    "dates": ["2001-07-01", "1999-12-31", "2015-05-18"],
    "durations": ["112 min", "95 min", "240 min"],
    "money": ["$1,200.50", "$31.20", "$240.00"],
    "numbers": ["1200000", "350000", "48000"],
    "measures": ["12 cm", "15.5 cm", "14 cm"],
    "flags": ["yes", "no", "yes"],
    "names": ["Ada Bryn", "Cole Della", "Ellis Fern"],
    "lists": ["Drama, Comedy, War", "Action, Drama", "War, Drama"],
    "years": ["1998", "2003", "1975"],
    "codes": ["AB-123", "CD-456", "EF-789"],
    "texts": ["A long text about a thing that many have seen", "short", "and one more of them"],
}


def change_values(values):
    """Return each different change of the values that the seeds give."""
    changed = [perturb_values(values, Random(seed)) for seed in SEEDS]
    return [list(each) for each in dict.fromkeys(map(tuple, changed)) if list(each) != values]


@given(st.text(max_size=30), st.integers(0, 99))
@settings(max_examples=300, deadline=None)
def test_a_header_is_always_changed_never_empty_and_a_seed_gives_the_same_change_again(header, seed):
    changed = perturb_header(header, Random(seed))
    assert changed.strip() not in ("", header)
    assert changed == perturb_header(header, Random(seed))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("quantity", {"qty", "QTY", "amount", "Menge", "quantities", "quantity_1"}),
        ("Date of birth", {"dob", "bdate", "birth_date", "dateOfBirth", "DATE_OF_BIRTH", "Geburtsdatum"}),
        ("product_number", {"prodNo", "productNumber", "Product Number", "product-number"}),
        ("weight", {"wt", "Peso", "Gewicht", "mass", "weight (kg)"}),
    ],
)
def test_a_header_takes_the_styles_words_and_languages_of_other_schemas(header, expected):
    assert expected <= {perturb_header(header, Random(seed)) for seed in range(20_000)}


@given(st.lists(st.text(max_size=20), max_size=12), st.integers(0, 99))
@settings(max_examples=300, deadline=None)
def test_any_texts_can_be_values_and_as_many_come_back(values, seed):
    changed = perturb_values(values, Random(seed))
    assert len(changed) == len(values)
    assert changed == perturb_values(values, Random(seed))


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_values_stay_equal_different_ones_different_and_half_of_the_columns_as_they_are(name):
    values = [*COLUMNS[name], COLUMNS[name][0], ""]
    unchanged = sum(perturb_values(values, Random(seed)) == values for seed in SEEDS)
    assert 0.42 * len(SEEDS) < unchanged < 0.75 * len(SEEDS)
    for changed in change_values(values):
        assert changed[0] == changed[3]
        assert changed[4] == ""
        if name not in ("lists", "texts"):
            assert len(set(changed[:3])) == len(set(values[:3])), changed


@pytest.mark.parametrize("name", ["durations", "money", "numbers", "measures"])
def test_the_numbers_of_a_column_keep_their_proportions(name):
    before = parse_quantities(pa.array(COLUMNS[name]))[1]
    plain = [each for each in change_values(COLUMNS[name]) if not any(re.search(r",\d|\.\d{3}", text) for text in each)]
    after = np.array([parse_quantities(pa.array(each))[1] for each in plain])
    read = after[np.isfinite(after).all(axis=1)]
    assert len(read) >= 5
    ratios = read / before
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[:, :1], ratios.shape), rtol=0.06)
