import pyarrow as pa

from navi.tables import ReadConfig, read_frame, to_arrow


def test_columns_come_in_order_of_first_appearance_with_absent_cells_null():
    rows = [{"b": "1"}, {"a": "2", "b": "3"}, {"c": "4"}]
    expected = pa.table({"b": ["1", "3", None], "a": pa.array([None, "2", None]), "c": pa.array([None, None, "4"])})
    for chunk_rows in (1, 100):
        assert to_arrow(read_frame(rows, config=ReadConfig(chunk_rows=chunk_rows))).combine_chunks() == expected


def test_no_chunks_make_an_empty_table():
    assert to_arrow([]).num_rows == 0
