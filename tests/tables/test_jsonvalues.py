import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import TableError
from navi.tables import ReadConfig, ReadReport, Source, compression, jsonvalues, read_chunks, to_arrow
from navi.tables.readreport import BROKEN_ROW, CUT_OFF, DAMAGED, NOT_AN_OBJECT, TOO_DEEP


@pytest.fixture
def path(tmp_path):
    return tmp_path / "movies.json"


def test_an_array_is_read_in_order_and_numbered_by_its_values(path):
    path.write_text('[{"a": 1}, {"a": null}, {"a": 3}]')
    losses = ReadReport()
    (chunk,) = read_chunks(Source("movies", path, "json"), losses)
    assert chunk.cell_value.to_pylist() == ["1", "3"]
    assert chunk.row_number.tolist() == [1, 3]
    assert losses.read == 3


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_longer_than_a_block_is_read_whole(path, read, monkeypatch, indent):
    monkeypatch.setattr(compression, "BLOCK_SIZE", 100)
    rows = [{"n": str(number), "text": "x" * (number % 700)} for number in range(1, 2000)]
    path.write_text(json.dumps(rows, indent=indent))
    assert read(path)[0] == [{key: cell for key, cell in row.items() if cell} for row in rows]


def test_objects_over_several_lines_follow_each_other(path, read):
    path.write_text('{\n  "a": 1\n}\n{\n  "a": {"b": 2}\n}\n')
    assert read(path)[0] == [{"a": "1"}, {"a.b": "2"}]


def test_a_broken_value_is_dropped_with_its_place_and_the_others_stay(path, read):
    path.write_text('[{"a": 1},\n{"a": [{"b": 1}, {wrong}, {"b": 2}]},\n{"a": "un"quoted"},\n{"a": 4}]')
    rows, losses = read(path)
    assert rows == [{"a": "1"}, {"a": "4"}]
    assert (losses.read, losses.dropped) == (4, {BROKEN_ROW: 2})
    assert losses.places == {
        BROKEN_ROW: [
            f"{path}:2: value 2: Expecting property name enclosed in double quotes",
            f"{path}:3: value 3: Expecting ',' delimiter",
        ]
    }
    with pytest.raises(TableError, match=r"movies\.json:2: broken row: value 2"):
        read(path, strict=True)


def test_a_bracket_that_is_never_closed_costs_its_value_alone_where_lines_show_it(path, read):
    path.write_text('[\n  {"a": 1},\n  {"a": [2},\n  {"a": 3},\n  {"a": 4}\n]')
    rows, losses = read(path)
    assert rows == [{"a": "1"}, {"a": "3"}, {"a": "4"}]
    assert losses.dropped == {BROKEN_ROW: 1}


def test_values_that_are_no_objects_are_dropped(path, read):
    path.write_text('[{"a": 1}, 2, "three", nonsense, [4], {"a": 5}]')
    rows, losses = read(path)
    assert rows == [{"a": "1"}, {"a": "5"}]
    assert losses.dropped == {NOT_AN_OBJECT: 3, BROKEN_ROW: 1}


def test_a_value_nested_too_deeply_is_dropped(path, read):
    path.write_text('[{"a": ' + "[" * 50_000 + "]" * 50_000 + '}, {"a": 2}]')
    rows, losses = read(path)
    assert rows == [{"a": "2"}]
    assert losses.dropped == {TOO_DEEP: 1}


def test_an_array_that_is_never_closed_is_damaged(path, read):
    path.write_text('[{"a": 1},\n{"a": 2},\n{"a": "thr')
    rows, losses = read(path)
    assert rows == [{"a": "1"}, {"a": "2"}]
    assert losses.dropped == {BROKEN_ROW: 1}
    assert losses.places[DAMAGED] == [f"{path}:3: the array is never closed"]


def test_text_after_the_array_is_a_loss(path, read):
    path.write_text('[{"a": 1}]\n{"a": 2}')
    rows, losses = read(path)
    assert rows == [{"a": "1"}]
    assert losses.places == {BROKEN_ROW: [f"{path}:2: text after the end of the array"]}


def test_of_a_truncated_array_the_whole_values_stay(tmp_path, read):
    path = tmp_path / "movies.json.gz"
    data = gzip.compress(json.dumps([{"n": f"{n * 7919}"} for n in range(5000)]).encode())
    path.write_bytes(data[: len(data) // 2])
    rows, losses = read(path)
    assert rows == [{"n": f"{n * 7919}"} for n in range(len(rows))]
    assert len(rows) > 1000
    assert losses.dropped == {CUT_OFF: 1}
    assert losses.places[DAMAGED] == [f"{path}:1: gzip stream: the file ends too early"]


def test_a_value_without_end_does_not_fill_the_memory(path, read, monkeypatch):
    monkeypatch.setattr(jsonvalues, "MAX_LINE", 100_000)
    path.write_text('[{"a": 1}, {"a": "' + "x" * 2_000_000)
    rows, losses = read(path)
    assert rows == [{"a": "1"}]
    assert losses.dropped == {BROKEN_ROW: 1}
    assert losses.places[DAMAGED] == [
        f"{path}:1: value 2 does not end within 100,000 characters, what follows is not read"
    ]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip).filter(bool)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=4), min_size=1, max_size=10),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([1, 1000]),
)
def test_arrays_written_by_the_standard_library_read_back_equal(tmp_path_factory, rows, indent, chunk_rows):
    path = tmp_path_factory.mktemp("array") / "rows.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=False), encoding="utf-8", newline="")
    losses = ReadReport()
    chunks = list(read_chunks(Source("rows", path, "json"), losses, ReadConfig(chunk_rows=chunk_rows)))
    found = [{key: cell for key, cell in row.items() if cell is not None} for row in to_arrow(chunks).to_pylist()]
    assert found == rows
    assert losses == ReadReport(read=len(rows))
