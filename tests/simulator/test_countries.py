"""Countries: where films come from."""

from itertools import groupby

import pytest

from navi.simulator.countries import ASIA, COUNTRIES, EUROPE


def test_countries_that_share_a_language_stand_together():
    runs = [language for language, _ in groupby(country.language for country in COUNTRIES)]
    assert len(runs) == len(set(runs))


def test_shares_are_weights_of_about_one():
    assert sum(country.share for country in COUNTRIES) == pytest.approx(1.0, abs=0.1)


def test_a_second_language_differs_where_there_is_one():
    for country in COUNTRIES:
        assert (country.second_language != country.language) == (country.second_share > 0), country.name


def test_continents_do_not_overlap():
    assert EUROPE
    assert ASIA
    assert not set(EUROPE) & set(ASIA)
