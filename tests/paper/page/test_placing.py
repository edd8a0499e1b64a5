from __future__ import annotations

import numpy as np
import pytest

from navi_paper.page import placing
from navi_paper.page.placing import place


@pytest.fixture
def points():
    """Two bundles of directions."""
    random = np.random.default_rng(0)
    middle = np.repeat(np.eye(6)[:2], 15, axis=0)
    return (middle + 0.05 * random.normal(size=(30, 6))).astype(np.float16)


@pytest.fixture
def _without_umap(monkeypatch):
    monkeypatch.setattr(placing, "find_spec", lambda name: None)


@pytest.mark.usefixtures("_without_umap")
def test_without_umap_tsne_keeps_bundles_together(points, tmp_path):
    placed = place(points, tmp_path, method="umap")
    assert placed.method == "t-SNE"
    first, second = placed.points[:15], placed.points[15:]
    apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert apart > max(np.linalg.norm(each - each.mean(axis=0), axis=1).mean() for each in (first, second))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_few_points_are_placed_by_principal_components(points, tmp_path, count):
    placed = place(points[:count], tmp_path, method="t-sne")
    assert placed.method == "principal components"
    assert placed.points.shape == (count, 2)
    assert np.isfinite(placed.points).all()


def test_the_first_component_spreads_points_most(tmp_path):
    line = np.stack([np.ones(9), np.linspace(-1, 1, 9), 0.01 * np.arange(9) % 2], axis=1)
    x, y = place(line, tmp_path, method="t-sne").points.T
    assert x.std() > 3 * y.std()


@pytest.mark.usefixtures("_without_umap")
def test_what_was_placed_is_not_placed_again(points, tmp_path, monkeypatch):
    first = place(points, tmp_path, method="t-sne")
    monkeypatch.setattr(placing, "_place_by_tsne", lambda *_: pytest.fail("placed twice"))
    again = place(points, tmp_path, method="t-sne")
    np.testing.assert_array_equal(first.points, again.points)


def test_other_points_are_placed_anew(points, tmp_path):
    place(points[:5], tmp_path, method="t-sne")
    place(points[1:6], tmp_path, method="t-sne")
    assert len(list((tmp_path / placing.PLACES_FOLDER).iterdir())) == 2
