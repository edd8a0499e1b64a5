"""What a model directory knows of its domain."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from navi.corpus import Corpus
from navi.errors import ModelError
from navi.training import Domain
from navi.training.domain import count_cells, survey_domain


def list_train_cells(corpus: Corpus) -> list[tuple[int, int, int]]:
    """Return (table, header, segment) of each training cell, the slow and certain way."""
    arrays = corpus.arrays
    return [
        (int(arrays.row_table[row]), int(arrays.segment_header[segment]), int(segment))
        for row in corpus.rows_of("train")
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
    ]


def test_cells_are_counted_by_column_and_segment(toy_corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("navi.training.domain.ROWS_AT_ONCE", 7)
    rows_K, count_S = count_cells(toy_corpus.arrays, toy_corpus.rows_of("train"))
    cells = list_train_cells(toy_corpus)
    by_column = Counter((table, header) for table, header, _ in cells)
    arrays = toy_corpus.arrays
    columns = zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True)
    assert rows_K.tolist() == [by_column[column] for column in columns]
    by_segment = Counter(segment for *_, segment in cells)
    assert count_S.tolist() == [by_segment[segment] for segment in range(arrays.num_segments)]


def test_headers_come_with_attribute_rows_and_tables(toy_corpus: Corpus) -> None:
    headers = survey_domain(toy_corpus).headers.to_pylist()
    cells = list_train_cells(toy_corpus)
    texts = toy_corpus.headers.to_pylist()
    rows = Counter(texts[header] for _, header, _ in cells)
    assert {line["header"]: line["rows"] for line in headers} == rows
    assert [line["rows"] for line in headers] == sorted(rows.values(), reverse=True)
    (genre,) = (line for line in headers if line["header"] == "genre")
    assert genre["attribute"] == "genre"
    assert genre["tables"] == ["films0", "films2", "films3"]


def test_values_come_with_their_counts_most_frequent_first(toy_corpus: Corpus) -> None:
    values = [line for line in survey_domain(toy_corpus).values.to_pylist() if line["attribute"] == "genre"]
    texts, arrays = toy_corpus.values.to_pylist(), toy_corpus.arrays
    attribute = toy_corpus.attributes.to_pylist().index("genre")
    segments = [s for *_, s in list_train_cells(toy_corpus) if arrays.segment_attribute[s] == attribute]
    counted = Counter(texts[arrays.segment_value[segment]] for segment in segments)
    assert {line["value"]: line["count"] for line in values} == counted
    assert [line["count"] for line in values] == sorted((line["count"] for line in values), reverse=True)


def test_values_of_open_attributes_are_not_listed(toy_corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("navi.training.domain.MAX_DISTINCT", 3)
    listed = set(survey_domain(toy_corpus).values["attribute"].to_pylist())
    assert "genre" in listed
    assert "title" not in listed


def test_rows_that_are_not_for_training_have_no_part(toy_corpus: Corpus) -> None:
    headers = survey_domain(toy_corpus).headers
    cells = sum(np.diff(toy_corpus.arrays.row_offsets)[toy_corpus.rows_of("train")])
    assert sum(headers["rows"].to_pylist()) == cells < len(toy_corpus.arrays.row_segments)


def test_a_saved_domain_is_loaded_again(toy_corpus: Corpus, tmp_path: Path) -> None:
    domain = survey_domain(toy_corpus)
    domain.save(tmp_path)
    loaded = Domain.load(tmp_path)
    assert loaded.headers.equals(domain.headers)
    assert loaded.values.equals(domain.values)


def test_a_folder_without_a_domain_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Cannot read .*headers.arrow"):
        Domain.load(tmp_path)
