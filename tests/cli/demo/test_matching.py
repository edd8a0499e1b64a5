from __future__ import annotations

from navi.cli.demo.matching import pair_columns


def test_columns_of_one_group_make_pairs_unless_they_are_of_one_table():
    columns = [("a", "x"), ("b", "x"), ("a", "X"), ("c", "y")]
    pairs = pair_columns(columns, lambda column: column[1].lower())
    assert pairs == {(("a", "X"), ("b", "x")), (("a", "x"), ("b", "x"))}
