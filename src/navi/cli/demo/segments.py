"""The demo's map: segments of some catalogues in a plane, alike ones near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from navi.corpus import Encoded
    from navi.verbs import Navi

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float32]

NUM_TABLES, ROWS_PER_TABLE, MOST_SEGMENTS = 5, 50, 1000
"""How much of the corpus is drawn."""
ROLE_ORDER = ("low", "mid", "high")
FEWEST = 10
"""Points below which there are no neighbourhoods to keep."""
PERPLEXITY, ITERATIONS = 30, 600


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Segments with their places in a plane."""

    x: tuple[float, ...]
    """Where each stands from left to right."""
    y: tuple[float, ...]
    """Where each stands from bottom to top."""
    table: tuple[str, ...]
    """The table of each."""
    header: tuple[str, ...]
    """The header of each."""
    value: tuple[str, ...]
    """The value of each."""
    role: tuple[str, ...]
    """The role of each one's column: low, mid or high."""


def map_segments(model: Navi, corpus: Encoded, *, seed: int = 0) -> Segments:
    """Return segments of the largest tables of a corpus, as many of each role as there are, placed by t-SNE."""
    import numpy as np

    from navi.corpus import ROLES
    from navi.corpus.arrays import gather_ranges

    arrays, random = corpus.arrays, np.random.default_rng(seed)
    rows = choose_rows(np.asarray(arrays.row_table), random)
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    row, segment = np.repeat(rows, lengths), arrays.row_segments[cells]
    header, value = arrays.segment_header[segment], arrays.segment_value[segment]
    role = np.array(ROLES)[arrays.column_role[arrays.cell_column[cells]]]
    chosen = choose_segments(role, random)
    vectors = model.pool.embed(arrays, rows, parts=("segments",))["segments"][chosen]
    places = lay_out(vectors, seed)
    return Segments(
        x=tuple(places[:, 0].tolist()),
        y=tuple(places[:, 1].tolist()),
        table=tuple(corpus.tables[table] for table in arrays.row_table[row[chosen]]),
        header=tuple(corpus.headers.take(header[chosen]).to_pylist()),
        value=tuple(corpus.values.take(value[chosen]).to_pylist()),
        role=tuple(role[chosen].tolist()),
    )


def choose_rows(row_table: NDArray[np.integer], random: np.random.Generator) -> Ints:
    """Return some rows of each of the largest tables."""
    import numpy as np

    tables, counts = np.unique(row_table, return_counts=True)
    largest = tables[np.argsort(-counts, kind="stable")[:NUM_TABLES]]
    places = [np.flatnonzero(row_table == table) for table in largest]
    chosen = [random.choice(each, min(len(each), ROWS_PER_TABLE), replace=False) for each in places]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def choose_segments(role: NDArray[np.str_], random: np.random.Generator) -> Ints:
    """Return the places of segments, as many of each role where there are so many; low ones first, high ones last."""
    import numpy as np

    share = MOST_SEGMENTS // len(ROLE_ORDER)
    places = [np.flatnonzero(role == each) for each in ROLE_ORDER]
    return np.concatenate([np.sort(random.permutation(each)[:share]) for each in places]).astype(np.int64)


def lay_out(vectors: Floats, seed: int = 0) -> Floats:
    """Return (N, 2): vectors in a plane, near each other where their directions are alike."""
    import numpy as np

    if len(vectors) < FEWEST:
        return np.resize(vectors, (len(vectors), 2)).astype(np.float32)
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.maximum(lengths, 1e-12)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", max_iter=ITERATIONS, random_state=seed)
    # So few points are placed faster by one thread than by several that wait for each other on a busy machine.
    with threadpool_limits(1):
        placed: Floats = tsne.fit_transform(directions)
    return placed
