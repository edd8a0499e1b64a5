import numpy as np

from navi_paper.tasks.geometry import choose_tables, run


def test_low_and_high_segments_of_known_tables_are_kept(bench, encoders):
    outcome = run(encoders.oracle, bench)
    arrays = outcome.arrays
    count = int(outcome.measures["segments"])
    assert arrays["segments"].shape == (count, encoders.Oracle.WIDTH)
    assert {len(array) for array in arrays.values()} == {count}
    assert set(arrays["role"]) == {"low", "high"}
    assert set(arrays["table"]) == {"alpha", "beta"}


def test_segments_stand_beside_their_own_texts(bench, encoders):
    arrays = run(encoders.oracle, bench).arrays
    low = arrays["role"] == "low"
    assert set(zip(arrays["header"][low], arrays["value"][low], strict=True)) == {
        ("language", "english"),
        ("color", "red"),
    }
    number = bench.corpus.headers.to_pylist().index("color")
    expected = encoders.oracle.draw([number])[0].astype(np.float16)
    assert np.all(arrays["segments"][arrays["header"] == "color"] == expected)


def test_no_role_of_a_table_has_more_segments_than_the_limit(bench, encoders, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.geometry.SEGMENTS", 4)
    arrays = run(encoders.oracle, bench).arrays
    groups = zip(arrays["table"], arrays["role"], strict=True)
    _, counts = np.unique([f"{table} {role}" for table, role in groups], return_counts=True)
    assert counts.tolist() == [4, 4, 4, 4]


def test_tables_without_test_rows_are_not_chosen(bench):
    assert [bench.corpus.tables[table] for table in choose_tables(bench)] == ["alpha", "beta"]
