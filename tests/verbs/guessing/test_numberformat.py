from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.guessing.numberformat import learn_numbers, parse_number


@pytest.mark.parametrize(
    ("cells", "given_text", "expected"),
    [
        (["$1,200,000", "$35,000", "$812"], "950000", "$950,000"),
        (["1200000", "35000", "812"], "950,000", "950000"),
        (["118 min", "95 min", "102 min"], "88", "88 min"),
        (["118 min", "95 min", "102 min"], "88min", "88 min"),
        (["7.5", "8.0", "6.1"], "9", "9.0"),
        (["7,5", "8,25", "6,1"], "9,75", "9,75"),
        (["1.200,50", "35,10", "812,00"], "4100,20", "4.100,20"),
        (["1 200", "35 000", "812"], "41000", "41 000"),
        (["007", "042", "113"], "9", "009"),
        (["-5", "12", "-7"], "-3", "-3"),
        (["12%", "7%", "33%"], "5", "5%"),
        (["1900", "2001", "1987"], "1994.0", "1994"),
        (["1900", "2001", "1987"], "1994", "1994"),
    ],
)
def test_a_number_is_written_as_its_column_writes_it(cells, given_text, expected):
    assert learn_numbers(cells).render(given_text) == expected


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["118", "95", "102"], "88.5"),
        (["7.5", "8.0"], "7.85"),
        (["118 min", "95 min", "102 min"], "2 seasons"),
        (["$1,200", "$35"], "many"),
        (["118", "95"], ""),
    ],
)
def test_what_the_column_could_not_hold_is_refused(cells, text):
    assert learn_numbers(cells).render(text) is None


def test_a_column_with_two_units_keeps_both_and_gives_none_to_a_bare_number():
    form = learn_numbers(["90 min", "1 Season", "100 min", "2 Season", "88 min"])
    assert form.render("3 season") == "3 Season"
    assert form.render("97 min") == "97 min"
    assert form.render("97") is None


@pytest.mark.parametrize(
    "cells", [[], ["Alien", "Rocky 2"], ["Rocky 2", "Jaws 3", "Saw 4", "Alien 3", "Scream 2", "X 5"]]
)
def test_titles_are_no_numbers(cells):
    assert learn_numbers(cells) is None


def test_a_few_cells_of_another_kind_do_not_unmake_a_format():
    assert learn_numbers([f"{n} min" for n in range(60, 99)] + ["unknown"]).render("71") == "71 min"


@settings(deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30), st.sampled_from(["", "$", "EUR "]))
def test_every_cell_of_a_column_of_numbers_fits_its_own_format(numbers, before):
    cells = [f"{before}{number:,}" for number in numbers]
    form = learn_numbers(cells)
    assert form is not None
    assert [form.render(cell) for cell in cells] == cells


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 99))
def test_no_digit_is_lost_when_a_number_is_taken_apart(whole, cents):
    number = parse_number(f"${whole:,}.{cents:02d}", (",", "."))
    assert (number.before, number.whole, number.decimals) == ("$", str(whole), f"{cents:02d}")
