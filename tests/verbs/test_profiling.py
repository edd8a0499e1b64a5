"""Tests of frames as profiles, and of what a model directory knows of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from navi.columns import DEFAULT_SCORER
from navi.corpus import Corpus
from navi.verbs.profiling import Knowledge, list_headers, profile_frames


def test_a_trained_model_knows_the_columns_of_its_corpus(navi, corpus_dir):
    known = Knowledge.of(navi.folder).columns
    corpus = Corpus.open(corpus_dir)
    assert set(known.tables) == set(corpus.tables)
    assert (known.sketches.cells > 0).all()
    assert known.states["blind_header"].shape == (len(known), navi.hidden_size)


def test_a_directory_without_knowledge_has_the_default_scorer(tmp_path):
    assert Knowledge.of(tmp_path) == Knowledge(columns=None, scorer=DEFAULT_SCORER)


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame({"a": [1], "b": [2]}), pa.table({"a": [1], "b": [2]}), [{"a": 1}, {"b": 2}], {"a": 1, "b": 2}],
)
def test_headers_of_a_frame_of_any_kind(frame):
    assert list_headers(frame) == ["a", "b"]


def test_a_column_without_values_has_a_header_and_no_sketch(navi):
    frame = pd.DataFrame({"title": ["Alien", "Heat"], "note": [None, None]})
    profiles = profile_frames(navi, {"a": frame}, rows_per_column=2)
    assert profiles.headers == ("title", "note")
    assert profiles.sketches.cells.tolist() == [2, 0]
    assert np.abs(profiles.states["attribute"][1]).max() > 0
    assert np.abs(profiles.states["blind_value"][1]).max() == 0


def test_nested_columns_are_not_taken_for_empty(navi):
    profiles = profile_frames(navi, {"a": [{"cast": [{"name": "Ann"}, {"name": "Bob"}]}]}, rows_per_column=2)
    assert "cast" not in profiles.headers
    assert (profiles.sketches.cells > 0).all()
