"""Charts: points placed in a plane, and the script that draws Vega-Lite in a page."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import MissingExtraError

FEWEST_NEIGHBOURS = 12
"""Points from which t-SNE places them, not principal components."""


def place_points(vectors: NDArray[np.floating[Any]], seed: int = 0, method: str = "t-SNE") -> NDArray[np.floating[Any]]:
    """Return (N, 2): vectors placed in a plane, near each other where their directions are alike.

    `method` is t-SNE, UMAP, which is quicker and a package of its own, or PCA, which is quickest and coarse.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    unit = normalize(vectors)
    # A few points have no neighbourhoods to keep.
    if len(unit) < FEWEST_NEIGHBOURS or method == "PCA":
        return PCA(2).fit_transform(unit) if len(unit) > 1 else np.zeros((len(unit), 2))
    if method == "UMAP":
        with warnings.catch_warnings(action="ignore"):
            from umap import UMAP

            placed = UMAP(n_neighbors=min(15, len(unit) - 1), metric="cosine", random_state=seed, n_jobs=1)
            return np.asarray(placed.fit_transform(unit))
    tsne = TSNE(perplexity=min(30, (len(unit) - 1) / 3), init="pca", max_iter=600, random_state=seed)
    # So few points are placed faster by one thread than by several that wait for each other on a busy machine.
    with threadpool_limits(1):
        points: NDArray[np.floating[Any]] = tsne.fit_transform(unit)
    return points


@cache
def bundle_vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("Drawing the charts of a report", "report") from error
    version = vl_convert.get_vegalite_versions()[-1]
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    # Kept to itself: the bundle's own names are short ones and many.
    return "(() => {" + bundle.replace("</script", "<\\/script") + "\n})();"
