from __future__ import annotations

import numpy as np
import pytest

from navi.backbones import load_tokenizer
from navi.corpus import PrepareConfig, RowEncoder
from navi.tables import read_frame
from navi.verbs.guessing.evidence import NearestRows
from navi.verbs.guessing.gaps import Gaps, sort_cells

FILMS = [
    {"title": "dark city", "genre": "horror", "country": "usa"},
    {"title": "dark night", "genre": "horror", "country": "usa"},
    {"title": "love", "genre": "comedy", "country": "uk"},
    {"title": "love day", "genre": "comedy"},
    {"title": "dark house", "genre": "horror"},
    {"year": "1999"},
]


@pytest.fixture(scope="module")
def encoded(tiny_backbone):
    tables = {"films": read_frame(FILMS), "others": read_frame([{"title": "dark house", "country": "french"}])}
    return RowEncoder(load_tokenizer(tiny_backbone), PrepareConfig(max_unknown_share=None)).encode(tables)


def vote(encoded, row, k, rows=None):
    arrays = encoded.arrays
    rows = np.arange(arrays.num_rows) if rows is None else rows
    [country] = [
        column
        for column in range(len(arrays.column_table))
        if arrays.column_table[column] == 0 and encoded.headers[int(arrays.column_header[column])].as_py() == "country"
    ]
    gaps = Gaps(row=np.array([row]), column=np.array([country]))
    votes = NearestRows(arrays, rows, sort_cells(arrays, rows)).vote(gaps, k)
    texts = [encoded.values[int(value)].as_py() if value >= 0 else None for value in votes.value[0]]
    return texts, votes.weight[0]


def test_the_nearest_rows_with_a_cell_there_vote_nearest_first(encoded):
    texts, weights = vote(encoded, 4, 2)
    assert texts == ["usa", "usa"]
    assert weights[0] >= weights[1] > 0


def test_rows_of_other_tables_have_no_vote(encoded):
    texts, _ = vote(encoded, 4, 5)
    assert "french" not in texts


def test_rows_that_share_nothing_have_no_vote(encoded):
    texts, weights = vote(encoded, 5, 3)
    assert texts == [None, None, None]
    assert weights.tolist() == [0, 0, 0]


def test_rows_that_are_no_evidence_have_no_vote(encoded):
    texts, _ = vote(encoded, 4, 2, rows=np.array([2, 3]))
    assert texts == [None, None]


def test_the_cosine_is_that_of_tf_idf_vectors(encoded):
    from sklearn.feature_extraction.text import TfidfVectorizer

    def list_features(row):
        return [*" ".join(row.values()).split(), *(f"{header}={value}" for header, value in row.items())]

    weigh = TfidfVectorizer(analyzer=list_features, sublinear_tf=True)
    rows = weigh.fit_transform(FILMS)
    cosines = (weigh.transform([FILMS[4]]) @ rows.T).toarray()[0, :3]
    _, weights = vote(encoded, 4, 2)
    assert sorted(weights.tolist(), reverse=True) == pytest.approx(sorted(cosines.tolist(), reverse=True)[:2], abs=1e-9)
