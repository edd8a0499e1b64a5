from __future__ import annotations

import pytest

from navi.cli.options import split_names


@pytest.mark.parametrize(("text", "names"), [(None, None), ("genre", ["genre"]), (" a, b c,,", ["a", "b c"])])
def test_names_stand_between_commas(text, names):
    assert split_names(text) == names
