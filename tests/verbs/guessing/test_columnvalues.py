from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from navi.backbones import load_tokenizer
from navi.corpus import PrepareConfig, RowEncoder
from navi.tables import read_frame
from navi.training import Domain
from navi.verbs.guessing.columnvalues import ColumnValues
from navi.verbs.guessing.gaps import sort_cells

FILMS = [{"runtime": f"{n} min", "Genre": "Drama"} for n in range(90, 110)]
DOMAIN = Domain(
    headers=pa.table({"header": pa.array([], pa.string())}),
    values=pa.table(
        {
            "attribute": ["genre", "genre", "runtime", "runtime"],
            "value": ["drama", "horror", "88", "two hours"],
            "count": [5, 3, 2, 1],
        }
    ),
)


@pytest.fixture(scope="module")
def columns(tiny_backbone):
    tokenizer = load_tokenizer(tiny_backbone)
    encoded = RowEncoder(tokenizer, PrepareConfig(max_unknown_share=None)).encode({"films": read_frame(FILMS)})
    cells = sort_cells(encoded.arrays, np.arange(10))
    texts = [encoded.headers[int(header)].as_py() for header in encoded.arrays.column_header]
    values = ColumnValues(encoded, cells, tokenizer, DOMAIN, max_values=100, max_tokens=20)
    return {header: values[number] for number, header in enumerate(texts)}


def test_a_column_holds_its_own_values_and_those_of_its_attribute(columns):
    genre = columns["Genre"].values
    assert genre.texts == ("Drama", "horror")
    assert genre.count.tolist() == [10, 0]
    assert genre.share.tolist() == [5 / 8, 3 / 8]


def test_values_of_training_are_written_as_the_column_writes_them_or_left_out(columns):
    assert "88 min" in columns["runtime"].values.texts
    assert "two hours" not in columns["runtime"].values.texts


def test_each_cell_is_numbered_in_the_set(columns):
    runtime = columns["runtime"]
    assert sorted(runtime.values.texts[number] for number in runtime.cells) == sorted(
        f"{n} min" for n in range(90, 100)
    )


def test_lengths_are_shared_out_by_the_column_s_cells(columns):
    lengths, shares = columns["runtime"].share_lengths()
    assert shares.sum() == pytest.approx(1.0)
    assert (np.diff(shares) <= 0).all()
    assert lengths.min() >= 1
