from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from navi.errors import ConfigError, ModelError
from navi.sklearn import NaviEncoder
from navi.verbs import Navi

WIDTH = 32
EXPECTED_FAILURES = {
    "check_methods_subset_invariance": "batches of another size round otherwise, by less than 1e-5; it asks 1e-7",
}


@pytest.fixture(scope="session")
def model_dir(tiny_backbone, tmp_path_factory):
    """A model directory whose weights were never trained."""
    from navi.corpus import PrepareConfig
    from navi.model import load_backbone

    folder = tmp_path_factory.mktemp("untrained") / "model"
    load_backbone(tiny_backbone).save_pretrained(folder)
    shutil.copy(tiny_backbone / "tokenizer.json", folder)
    settings = PrepareConfig(backbone="tiny", max_value_tokens=6).as_settings()
    (folder / "pretrain.json").write_text(json.dumps({"corpus": {"settings": settings}}))
    return folder


@pytest.fixture
def films():
    """Twelve films, half of them dramas."""
    genres = ["drama", "comedy"] * 6
    return pd.DataFrame({"title": [f"film {n}" for n in range(12)], "genre": genres, "year": range(1990, 2002)})


@pytest.fixture
def inside(model_dir, monkeypatch):
    """Run where the model is called `model`: scikit-learn's checks are made before any fixture."""
    monkeypatch.chdir(model_dir.parent)


@pytest.mark.usefixtures("inside")
@parametrize_with_checks(
    [NaviEncoder("model")],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_the_encoder_is_a_scikit_learn_transformer(estimator, check):
    check(estimator)


def test_a_row_becomes_the_vector_that_the_model_has_for_it(model_dir, films):
    expected = Navi.from_pretrained(model_dir, device="cpu").embed_rows(films)
    for frame in (films, pl.from_pandas(films), pa.Table.from_pandas(films)):
        np.testing.assert_allclose(NaviEncoder(model_dir).fit_transform(frame), expected, atol=1e-5)


def test_an_array_has_the_headers_x0_and_so_on_and_may_mix_texts_numbers_and_gaps(model_dir):
    array = np.array([["film", 1.5], [None, np.nan]], dtype=object)
    vectors = NaviEncoder(model_dir).fit_transform(array)
    frame = pd.DataFrame(array, columns=["x0", "x1"])
    np.testing.assert_allclose(NaviEncoder(model_dir).fit_transform(frame), vectors, atol=1e-5)
    assert np.abs(vectors[0]).max() > 0
    assert (vectors[1] == 0).all()


def test_numbers_beside_stand_as_they_are_after_the_vector_of_the_other_columns(model_dir, films):
    films["votes"] = pd.array([3, *[None] * 11], dtype="Int64")
    encoder = NaviEncoder(model_dir, numbers="passthrough")
    found = encoder.fit_transform(films)
    expected = NaviEncoder(model_dir).fit_transform(films[["title", "genre"]])
    np.testing.assert_allclose(found[:, :WIDTH], expected, atol=1e-5)
    assert found[:, WIDTH].tolist() == films["year"].tolist()
    assert found[0, -1] == 3
    assert np.isnan(found[1:, -1]).all()
    assert encoder.get_feature_names_out()[-3:].tolist() == [f"navi{WIDTH - 1}", "year", "votes"]
    alone = NaviEncoder(model_dir, numbers="passthrough").fit_transform(films[["year"]])  # nothing is left to embed
    assert alone.tolist() == [[year] for year in films["year"]]


def test_components_are_those_of_the_fitted_frame(model_dir, films):
    encoder = NaviEncoder(model_dir, n_components=3).fit(films)
    found = encoder.transform(films)
    assert found.shape == (12, 3)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(encoder.transform(films[:4]), found[:4], atol=1e-5)
    np.testing.assert_allclose(NaviEncoder(model_dir, n_components=3).fit_transform(films), found, atol=1e-5)


def test_settings_that_do_not_fit_are_refused(model_dir, films):
    with pytest.raises(ConfigError, match="numbers must be one of embed, passthrough, got 'drop'"):
        NaviEncoder(model_dir, numbers="drop").fit(films)
    with pytest.raises(ConfigError, match=r"n_components must lie between 1 and 12 .* got 13"):
        NaviEncoder(model_dir, n_components=13).fit(films)


def test_set_output_gives_frames_with_the_names_of_the_features(model_dir, films):
    films.index = range(100, 112)
    found = (
        NaviEncoder(model_dir, n_components=2, numbers="passthrough")
        .set_output(transform="pandas")
        .fit_transform(films)
    )
    assert found.columns.tolist() == ["navi0", "navi1", "year"]
    assert found.index.tolist() == films.index.tolist()
    found = NaviEncoder(model_dir, n_components=2).set_output(transform="polars").fit_transform(films)
    assert found.columns == ["navi0", "navi1"]


def test_a_pickle_refers_to_the_model_directory_and_says_if_that_is_gone(model_dir, films, tmp_path):
    encoder = NaviEncoder(shutil.copytree(model_dir, tmp_path / "model")).fit(films)
    pickled = pickle.dumps(encoder)
    assert len(pickled) < 10_000
    np.testing.assert_allclose(pickle.loads(pickled).transform(films), encoder.transform(films), atol=1e-6)
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(ModelError, match="No model at"):
        pickle.loads(pickled).transform(films)
    model = Navi.from_pretrained(model_dir, device="cpu")
    assert clone(NaviEncoder(model)).model is model


@pytest.mark.parametrize("opened", [False, True], ids=["path", "opened"])
def test_a_pickle_with_its_weights_needs_no_directory(model_dir, films, tmp_path, opened):
    shutil.copytree(model_dir, tmp_path / "model")
    model = Navi.from_pretrained(tmp_path / "model", device="cpu") if opened else tmp_path / "model"
    encoder = NaviEncoder(model, include_weights=True).fit(films)
    expected = encoder.transform(films)
    pickled = pickle.dumps(encoder)
    shutil.rmtree(tmp_path / "model")
    np.testing.assert_allclose(pickle.loads(pickled).transform(films), expected, atol=1e-6)


def test_it_works_on_some_columns_of_a_column_transformer(model_dir, films):
    columns = ColumnTransformer([("text", NaviEncoder(model_dir), ["title"]), ("kind", OneHotEncoder(), ["genre"])])
    assert columns.fit_transform(films).shape == (12, WIDTH + 2)
    assert columns.get_feature_names_out()[[0, -1]].tolist() == ["text__navi0", "kind__genre_drama"]


@pytest.mark.long
def test_a_grid_search_tries_its_settings_in_several_processes(model_dir, films):
    pipeline = make_pipeline(NaviEncoder(model_dir), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"naviencoder__pooling": ["text", "mean"]}, cv=2, n_jobs=2, error_score="raise")
    search.fit(films, films["genre"])
    assert search.best_params_["naviencoder__pooling"] in ("text", "mean")


def test_it_encodes_text_inside_a_table_vectorizer(model_dir, films):
    skrub = pytest.importorskip("skrub")
    vectorizer = skrub.TableVectorizer(cardinality_threshold=5, high_cardinality=NaviEncoder(model_dir))
    found = vectorizer.fit_transform(films)
    assert sum("navi" in name for name in found.columns) == WIDTH
