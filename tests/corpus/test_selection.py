"""Tests of what of the drafts goes into the corpus."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import PrepareConfig
from navi.corpus.drafts import Draft
from navi.corpus.selection import NOT_LARGEST, SAMPLED, VOCABULARY, select
from navi.corpus.vocabulary import FieldCount
from navi.errors import CorpusError
from navi.tables import ReadReport, Source

CONFIG = PrepareConfig()


def make_draft(name, rows, bad=0, trouble=None):
    return Draft(
        source=Source(name, Path(f"{name}.csv"), "csv"),
        pieces=Path(name),
        losses=ReadReport(read=rows),
        num_rows=rows,
        fields=FieldCount(text=100, bad=bad),
        trouble=trouble,
    )


def test_tables_come_sorted_by_name():
    assert [each.name for each in select([make_draft("b", 1), make_draft("a", 1)], CONFIG)] == ["a", "b"]


def test_table_is_left_out_only_above_the_share_of_bad_fields():
    good, bad = select([make_draft("a", 7, bad=30), make_draft("b", 9, bad=31)], CONFIG)
    assert (good.kept, good.dropped) == (7, Counter())
    assert (bad.kept, bad.dropped) == (0, Counter({VOCABULARY: 9}))


def test_vocabulary_check_can_be_switched_off():
    config = replace(CONFIG, max_unknown_share=None)
    assert [each.kept for each in select([make_draft("a", 7, bad=100)], config)] == [7]


def test_largest_tables_are_chosen_among_those_whose_language_is_known():
    drafts = [make_draft("a", 9, bad=100), make_draft("b", 5), make_draft("c", 7)]
    selections = select(drafts, replace(CONFIG, largest_tables=1))
    assert [dict(each.dropped) for each in selections] == [{VOCABULARY: 9}, {NOT_LARGEST: 5}, {}]


def test_sampling_shares_out_what_the_largest_tables_leave():
    drafts = [make_draft("a", 60), make_draft("b", 40), make_draft("c", 1)]
    selections = select(drafts, replace(CONFIG, largest_tables=2, total_rows=10))
    assert [each.kept for each in selections] == [6, 4, 0]
    assert [dict(each.dropped) for each in selections] == [{SAMPLED: 54}, {SAMPLED: 36}, {NOT_LARGEST: 1}]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40)), min_size=1, max_size=6),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 100),
)
def test_rows_always_add_up(tables, largest, total):
    drafts = [make_draft(str(number), rows, bad=bad) for number, (rows, bad) in enumerate(tables)]
    if all(bad > 30 for _, bad in tables):
        drafts.append(make_draft("good", 3))
    for each in select(drafts, replace(CONFIG, largest_tables=largest, total_rows=total)):
        assert each.draft.num_rows == each.kept + each.dropped.total()
        assert each.kept >= 0


def test_only_tables_that_are_kept_can_be_unseen():
    drafts = [make_draft("a", 5), make_draft("b", 5), make_draft("c", 5, bad=100)]
    selections = select(drafts, replace(CONFIG, unseen_tables=1))
    assert sum(each.is_unseen for each in selections[:2]) == 1
    assert not selections[2].is_unseen


def test_nothing_but_foreign_tables_is_an_error_that_names_them():
    with pytest.raises(CorpusError, match=r"No table is left: the tokenizer's vocabulary misses too much of a, b\."):
        select([make_draft("a", 5, bad=99), make_draft("b", 5, bad=99)], CONFIG)


def test_no_rows_at_all_is_an_error_that_says_what_was_wrong():
    drafts = [make_draft("a", 0, trouble="a.csv is no text."), make_draft("b", 0)]
    with pytest.raises(CorpusError, match=r"No table has any row: 2 files were read\. a\.csv is no text\."):
        select(drafts, CONFIG)
