import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from navi.tables.cells import clean_header, mend_surrogates, name_apart, order_of_appearance, tell_apart
from navi.tables.readreport import ReadReport


@given(st.lists(st.integers(0, 9)))
def test_numbers_are_listed_in_order_of_first_appearance(numbers):
    order = order_of_appearance(np.array(numbers, dtype=np.int32), 10)
    assert order.tolist() == list(dict.fromkeys(numbers))


def test_headers_are_stripped_and_named_if_nothing_is_left():
    assert clean_header(" a\0b ") == "ab"
    assert clean_header(" \0 ") == "unnamed"
    assert clean_header("", "column_3") == "column_3"


def test_halves_of_surrogate_pairs_are_replaced_and_whole_ones_joined():
    assert mend_surrogates("a\ud800b") == "a\ufffdb"
    assert mend_surrogates("\ud83d\ude00") == "😀"


def test_a_name_told_apart_is_taken_from_then_on():
    taken = {"a", "a (2)"}
    assert [name_apart("a", taken), name_apart("a", taken)] == ["a (3)", "a (4)"]


@given(st.lists(st.lists(st.sampled_from(["a", "a (2)", "b"]), max_size=5), min_size=1, max_size=5))
def test_within_a_row_no_header_comes_twice_and_first_ones_keep_their_name(rows):
    headers = ["a", "a (2)", "b"]
    row = np.repeat(np.arange(len(rows), dtype=np.int32), [len(names) for names in rows])
    names = [name for names in rows for name in names]
    header = np.array([headers.index(name) for name in names], dtype=np.int32)
    told = tell_apart(headers, row, header, ReadReport(source="f"))
    for number, given_names in enumerate(rows):
        told_names = [headers[index] for index in told[row == number]]
        assert len(set(told_names)) == len(told_names)
        for place, name in enumerate(given_names):
            if name not in given_names[:place]:
                assert told_names[place] == name
