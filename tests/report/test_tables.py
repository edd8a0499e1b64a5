from __future__ import annotations

import numpy as np
import pytest

from navi.errors import ConfigError
from navi.report import Column, Number, Table


def test_a_name_alone_stands_for_a_column():
    assert Table("t", ("a",), ((1,),)) == Table("t", (Column("a"),), ((1,),))


def test_scalars_of_numpy_become_pythons_own():
    row = Table("t", ("a", "b", "c"), ((np.float32(0.5), np.int64(3), np.bool_(True)),)).rows[0]
    assert [type(cell) for cell in row] == [float, int, bool]
    assert type(Number(np.float64(1.0), np.float32(0.5)).deviation) is float


def test_figures_that_are_not_finite_are_shown_as_nothing():
    assert Table("t", ("a", "b"), ((float("nan"), float("inf")),)).rows == ((None, None),)
    assert Number(1.0, float("nan")).deviation is None


def test_rows_must_have_a_cell_for_each_column():
    with pytest.raises(ConfigError, match="Table 't': row 2 has 1 cells for 2 columns"):
        Table("t", ("a", "b"), ((1, 2), (1,)))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Table("t", (), ()), "Table 't' has no columns"),
        (lambda: Table("t", ("a",), ((object(),),)), "A cell must be a text.*got object"),
        (lambda: Number(float("nan")), "A Number needs a finite value"),
        (lambda: Column("a", best="most"), "best of column 'a' must be one of highest, lowest, got 'most'"),
        (lambda: Column("a", digits=-1), "digits of column 'a' must be between 0 and 12, got -1"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make()
