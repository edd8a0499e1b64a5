import gzip
import json
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import TableError
from navi.tables import ReadConfig, ReadReport, Source, compression, read_chunks, to_arrow
from navi.tables.jsonlines import is_json, is_json_lines
from navi.tables.readreport import BROKEN_ROW, CUT_OFF, DAMAGED, FAMILY_LIMIT, NOT_AN_OBJECT, TOO_DEEP, WRONG_ENCODING


@pytest.fixture
def path(tmp_path):
    return tmp_path / "movies.jsonl"


def test_each_line_is_a_row_numbered_by_its_line(path):
    path.write_text('{"title": "Heat"}\n\n  {"title": "Ran"}\r\n{"year": 1985}')
    chunks = list(read_chunks(Source("movies", path, "jsonl"), ReadReport()))
    assert to_arrow(chunks).to_pylist() == [
        {"title": "Heat", "year": None},
        {"title": "Ran", "year": None},
        {"title": None, "year": "1985"},
    ]
    assert chunks[0].row_number.tolist() == [1, 3, 4]


def test_a_broken_line_is_dropped_with_its_place_and_the_others_stay(path, read):
    path.write_text('{"a": 1}\n{"a": 2,\n{"a": 3} x\nnonsense\n{"a": 5}\n')
    rows, losses = read(path)
    assert rows == [{"a": "1"}, {"a": "5"}]
    assert (losses.read, losses.dropped) == (5, {BROKEN_ROW: 3})
    assert losses.places == {
        BROKEN_ROW: [
            f"{path}:2: Expecting property name enclosed in double quotes at column 9",
            f"{path}:3: text after the value, at column 9",
            f"{path}:4: Expecting value at column 1",
        ]
    }


def test_a_strict_reader_stops_at_a_broken_line(path, read):
    path.write_text('{"a": 1}\n{"a": 2,\n')
    with pytest.raises(TableError, match=r"movies\.jsonl:2: broken row: Expecting property name"):
        read(path, strict=True)


def test_a_line_that_is_no_object_is_dropped(path, read):
    path.write_text('{"a": 1}\n[1, 2]\n"text"\n3\nnull\n')
    rows, losses = read(path)
    assert rows == [{"a": "1"}]
    assert (losses.read, losses.dropped) == (5, {NOT_AN_OBJECT: 4})
    assert losses.places[NOT_AN_OBJECT][0] == f"{path}:2: expected {{ … }}"


def test_a_line_nested_too_deeply_is_dropped(path, read):
    path.write_text('{"a": 1}\n{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n")
    rows, losses = read(path)
    assert rows == [{"a": "1"}]
    assert losses.dropped == {TOO_DEEP: 1}


def test_of_a_truncated_gzip_the_whole_lines_stay(tmp_path, read):
    path = tmp_path / "movies.jsonl.gz"
    data = gzip.compress("".join(json.dumps({"n": n, "text": f"{n * 7919}"}) + "\n" for n in range(5000)).encode())
    path.write_bytes(data[: len(data) // 2])
    rows, losses = read(path)
    assert rows == [{"n": str(n), "text": f"{n * 7919}"} for n in range(len(rows))]
    assert len(rows) > 1000
    assert losses.dropped == {CUT_OFF: 1}
    assert losses.places[CUT_OFF] == [f"{path}:{len(rows) + 1}"]
    assert losses.places[DAMAGED] == [f"{path}:{len(rows) + 1}: gzip stream: the file ends too early"]
    with pytest.raises(TableError, match=r"movies\.jsonl\.gz:\d+: "):
        read(path, strict=True)


def test_a_line_in_another_encoding_is_kept_and_counted(path, read):
    path.write_bytes('{"a": "né"}\n'.encode() + b'{"a": "caf\xe9"}\n')
    rows, losses = read(path)
    assert rows == [{"a": "né"}, {"a": "café"}]
    assert losses.cells == {WRONG_ENCODING: 1}
    with pytest.raises(TableError, match=r"movies\.jsonl:2: another encoding: byte e9 is not utf-8"):
        read(path, strict=True)


def test_control_characters_within_strings_do_no_harm(path, read):
    path.write_text('{"a": "x\ty"}\n')
    assert read(path)[0] == [{"a": "x\ty"}]


def test_tables_of_the_web_data_commons_read_as_they_come(tmp_path, read):
    film = {
        "row_id": 7,
        "name": "Heat",
        "actor": [{"name": "Al", "@type": "Person"}, {"name": "Bob"}, {"name": "Val"}, {"name": "Tom"}],
        "aggregaterating": {"ratingvalue": 8.30, "bestrating": "10"},
        "page_url": "https://films.example/heat",
    }
    path = tmp_path / "Movie_films.example_September2020.json.gz"
    path.write_bytes(gzip.compress((json.dumps(film) + "\n" + json.dumps(film | {"row_id": 8}) + "\n").encode()))
    rows, losses = read(path)
    assert rows[0] == {
        "name": "Heat",
        "actor.0.name": "Al",
        "actor.0.@type": "Person",
        "actor.1.name": "Bob",
        "actor.2.name": "Val",
        "aggregaterating.ratingvalue": "8.3",
        "aggregaterating.bestrating": "10",
    }
    assert rows[1] == rows[0]
    assert losses.cells == {FAMILY_LIMIT: 2}
    assert losses.notes == ["a Web Data Commons table: row_id and page_url are left out"]


def test_an_identifier_alone_is_kept(path, read):
    path.write_text('{"row_id": 1, "a": 2}\n{"row_id": 3, "page_url": "x"}\n')
    rows, losses = read(path)
    assert rows == [{"row_id": "1", "a": "2"}, {"row_id": "3", "page_url": "x"}]
    assert losses.notes == []


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ('{"a": 1}\n{"a": 2}\n', True),
        ('{"a": 1}', True),
        ('{"a": 1\n{"a": 2}\n', True),
        ('broken\n{"a": 2}\n', True),
        ('{"a": "' + "x" * 1000, True),
        ("[1, 2]\n[3, 4]\n", True),
        ('[{"a": 1},\n{"a": 2}]', False),
        ('[{"a": 1}]', False),
        ('{\n "a": 1\n}\n', False),
        ('{"a":\n 1, "b": {"c":\n', False),
    ],
)
def test_lines_are_told_from_values_over_several_lines(head, lines):
    assert is_json_lines(head) is lines


@pytest.mark.parametrize(
    ("head", "json_"), [('{"a": 1}\n', True), ('[\n{"a": 1}\n]', True), ("{a},b\n1,2\n", False), ("a,b\n", False)]
)
def test_json_is_told_from_other_text(head, json_):
    assert is_json(head) is json_


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip).filter(bool)
ROWS = st.lists(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=6), min_size=1, max_size=20)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.booleans(), st.sampled_from([1, 3, 1000]))
def test_lines_written_by_the_standard_library_read_back_equal(tmp_path_factory, rows, ascii_, chunk_rows):
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=ascii_) + "\n" for row in rows), encoding="utf-8", newline="")
    losses = ReadReport()
    chunks = list(read_chunks(Source("rows", path, "jsonl"), losses, ReadConfig(chunk_rows=chunk_rows)))
    found = [{key: cell for key, cell in row.items() if cell is not None} for row in to_arrow(chunks).to_pylist()]
    assert found == rows
    assert losses == ReadReport(read=len(rows))


def measure_peak(path, monkeypatch, num_rows: int) -> int:
    """Return the most bytes that Python and Arrow hold while a file of so many rows is read."""
    with path.open("w") as file:
        for number in range(num_rows):
            file.write(json.dumps({"n": number, "title": f"a film called {number}", "cast": ["Ann", "Bob"]}) + "\n")
    monkeypatch.setattr(compression, "BLOCK_SIZE", 1 << 14)
    before = pa.total_allocated_bytes()
    arrow = 0
    tracemalloc.start()
    try:
        for chunk in read_chunks(Source("movies", path, "jsonl"), ReadReport(), ReadConfig(chunk_rows=50)):
            arrow = max(arrow, pa.total_allocated_bytes() - before)
            assert chunk.num_rows
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_file(path, monkeypatch):
    assert measure_peak(path, monkeypatch, 8_000) < 1.2 * measure_peak(path, monkeypatch, 2_500)
