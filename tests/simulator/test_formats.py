"""Formats: the ways catalogues write the same thing."""

import pytest

from navi.simulator.draws import Draws
from navi.simulator.formats import (
    BEST,
    CERTIFICATES,
    COUNTS,
    DATES,
    DURATIONS,
    MONEY,
    SCORES,
    choose_formats,
)
from navi.simulator.headers import HEADERS


def test_a_date_is_written_in_six_ways():
    assert {way: write(2004, 7, 6) for way, write in DATES.items()} == {
        "iso": "2004-07-06",
        "us": "07/06/2004",
        "dotted": "06.07.2004",
        "long": "July 6, 2004",
        "short": "6 Jul 2004",
        "month": "July 2004",
    }


def test_money_is_written_in_five_ways():
    assert {way: write(1_200_000) for way, write in MONEY.items()} == {
        "plain": 1_200_000,
        "dollars": "$1,200,000",
        "short": "1.2M",
        "code": "USD 1,200,000",
        "words": "$1.2 million",
    }


def test_whole_millions_lose_their_decimal_but_no_zero():
    assert MONEY["short"](20_000_000) == "20M"


def test_a_duration_is_written_in_six_ways():
    assert {way: write(118) for way, write in DURATIONS.items()} == {
        "plain": 118,
        "min": "118 min",
        "hours": "1h 58m",
        "iso": "PT1H58M",
        "clock": "1:58",
        "minutes": "118 minutes",
    }


def test_a_score_is_written_in_six_ways():
    assert {way: write(74) for way, write in SCORES.items()} == {
        "ten": 7.4,
        "hundred": 74,
        "stars": "3.5 stars",
        "of ten": "7.4/10",
        "percent": "74%",
        "five": 3.5,
    }


def test_every_way_of_scoring_has_a_best_score():
    assert BEST.keys() == SCORES.keys()


@pytest.mark.parametrize(("count", "text"), [(640, "640"), (12_345, "12.3K")])
def test_votes_are_cut_short_from_a_thousand_on(count, text):
    assert COUNTS["short"](count) == text


def test_every_scheme_has_five_certificates():
    assert all(len(set(scheme)) == 5 for scheme in CERTIFICATES.values())


def test_the_holders_of_a_concept_show_every_way_of_writing_it():
    chosen = [choose_formats(Draws(1), dict.fromkeys(HEADERS, turn)) for turn in range(6)]
    assert {formats.date for formats in chosen} == DATES.keys()
    assert {formats.duration for formats in chosen} == DURATIONS.keys()


def test_names_with_a_comma_are_never_joined_by_commas():
    chosen = [choose_formats(Draws(seed), dict.fromkeys(HEADERS, turn)) for seed in range(20) for turn in range(20)]
    inverted = [formats for formats in chosen if formats.person == "surname first"]
    assert inverted
    assert not [formats for formats in inverted if formats.separator == ", "]
