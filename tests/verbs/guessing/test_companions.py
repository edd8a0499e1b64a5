from __future__ import annotations

import numpy as np
import pytest

from navi.backbones import load_tokenizer
from navi.corpus import PrepareConfig, RowEncoder
from navi.tables import read_frame
from navi.verbs.guessing.companions import Companions
from navi.verbs.guessing.gaps import Gaps, sort_cells

FILMS = [
    {"director": "man", "language": "english", "country": "usa"},
    {"director": "man", "language": "english", "country": "usa"},
    {"director": "king", "language": "english", "country": "uk"},
    {"director": "king", "language": "english", "country": "uk"},
    {"director": "man", "language": "english"},
    {"director": "woman", "language": "korean"},
]


@pytest.fixture(scope="module")
def encoded(tiny_backbone):
    tokenizer = load_tokenizer(tiny_backbone)
    return RowEncoder(tokenizer, PrepareConfig(max_unknown_share=None)).encode({"films": read_frame(FILMS)})


@pytest.fixture(scope="module")
def told(encoded):
    arrays = encoded.arrays
    texts = [encoded.headers[int(header)].as_py() for header in arrays.column_header]
    country = texts.index("country")
    cells = sort_cells(arrays, np.arange(arrays.num_rows))
    _, value = cells.of(country)
    _, number = np.unique(value, return_inverse=True)
    gaps = Gaps(row=np.array([4, 5]), column=np.array([country, country]))
    counts, totals = Companions(arrays, cells).tell(gaps, number, np.array([0.5, 0.5]))
    names = [encoded.values[int(each)].as_py() for each in np.unique(value)]
    return [dict(zip(names, line, strict=True)) for line in counts.toarray().tolist()], totals


def test_the_most_telling_cell_is_heard(told):
    # The director was met with one country alone, the language with both.
    assert told[0][0] == {"usa": 2, "uk": 0}
    assert told[1][0] == 2


def test_cells_that_no_other_row_has_tell_nothing(told):
    assert told[0][1] == {"usa": 0, "uk": 0}
    assert told[1][1] == 0
