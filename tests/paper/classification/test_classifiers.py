from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from navi.errors import MissingExtraError
from navi_paper.classification.classifiers import CLASSIFIERS
from navi_paper.classification.tabpfn import WEIGHTS_FILE, find_folder

FETCHED = (find_folder() / WEIGHTS_FILE).is_file()
NAMES = [
    pytest.param("xgboost", marks=pytest.mark.skipif(find_spec("xgboost") is None, reason="needs xgboost")),
    "lr",
    pytest.param("tabpfn", marks=pytest.mark.skipif(not FETCHED, reason="needs scripts/fetch_tabpfn.py")),
]


def draw_rows(spread: float, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return 120 vectors around three centres, and the class of each."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["comedy", "drama", "horror"], 40)
    centres = np.repeat(np.eye(3, width) * 4, 40, axis=0)
    return (centres + spread * rng.normal(size=centres.shape)).astype(np.float32), labels


@pytest.mark.parametrize("name", NAMES)
def test_classes_that_lie_apart_are_told_apart(name):
    vectors, labels = draw_rows(0.1)
    classifier = CLASSIFIERS[name](0).fit(vectors[::2], labels[::2])
    assert np.array_equal(classifier.predict(vectors[1::2]), labels[1::2])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_answers(name):
    vectors, labels = draw_rows(4.0)
    answers = [CLASSIFIERS[name](5).fit(vectors[::2], labels[::2]).predict(vectors[1::2]) for _ in range(2)]
    assert np.array_equal(*answers)
    assert not np.array_equal(answers[0], labels[1::2])


@pytest.mark.parametrize("name", NAMES)
def test_gaps_and_features_that_no_row_has_do_no_harm(name):
    vectors, labels = draw_rows(0.1)
    vectors[::7, 5] = np.nan
    vectors[:, 6] = np.nan
    classifier = CLASSIFIERS[name](0).fit(vectors[::2], labels[::2])
    assert (classifier.predict(vectors[1::2]) == labels[1::2]).mean() > 0.9


def test_without_xgboost_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"XGBoost needs an extra: pip install 'navi-tables\[eval\]'"):
        CLASSIFIERS["xgboost"](0)
