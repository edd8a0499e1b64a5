from __future__ import annotations

import pytest
from rich.console import Console

from navi.cli.render import (
    count_things,
    format_count,
    format_duration,
    format_loss,
    format_share,
    make_table,
    quote,
    tell_next,
)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (12345, "12,345"), (7.25, "7.2"), (123.4, "123"), (1234.5, "1,234")]
)
def test_counts_have_their_thousands_apart_and_small_rates_a_digit(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (8.24, "8.2 s"), (59, "59 s"), (187, "3 min 07 s"), (3600, "1 h 00 min"), (7322, "2 h 02 min")],
)
def test_durations_have_the_two_units_that_matter(seconds, text):
    assert format_duration(seconds) == text


def test_what_is_not_there_is_a_dash():
    assert (format_share(None), format_loss(None)) == ("–", "–")


def test_shares_are_percent_and_losses_have_three_digits():
    assert (format_share(0.2561), format_loss(2.34567)) == ("25.6 %", "2.346")


def test_one_thing_is_not_many():
    assert (count_things(1, "row"), count_things(0, "row"), count_things(1200, "row")) == (
        "1 row",
        "0 rows",
        "1,200 rows",
    )


def test_a_table_shows_every_cell_and_sets_numbers_right(capsys):
    table = make_table(("name", "rows"), [("reelbase", "43"), ("cinefolio", "1,114")], title="Tables", right=("rows",))
    Console(width=60).print(table)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "Tables"
    assert any(line.endswith("   43") for line in lines)
    assert any("cinefolio" in line and line.endswith("1,114") for line in lines)


def test_paths_are_quoted_for_the_shell():
    assert tell_next(f"navi pretrain {quote('my corpus')} -o model", "learn") == (
        "Next, learn:  navi pretrain 'my corpus' -o model"
    )
