"""What a user asks of a trained model: embeddings, names, fills, matches, neighbours."""

import gc as _gc

# What the imports below make stays, so looking for garbage in it finds none: without that `import navi.verbs` takes
# 4.4 s of CPU instead of 5.4 (means of three processes each, in turn, on a loaded machine). A process that holds more
# already is left alone: some of that may be a user's garbage.
_quick = _gc.isenabled() and len(_gc.get_objects()) < 100_000
if _quick:
    _gc.disable()

from navi.verbs.embed import EmbedConfig  # noqa: E402
from navi.verbs.link import Links, RowCluster, RowPair, RowRef  # noqa: E402
from navi.verbs.navi import Navi  # noqa: E402
from navi.verbs.search import (  # noqa: E402
    Neighbour,
    Neighbours,
    SearchIndex,
    build_index,
    index_frames,
    index_vectors,
    open_index,
    parse_like,
)
from navi.verbs.vector_files import EmbeddedFiles, embed_files  # noqa: E402

if _quick:
    _gc.freeze()
    _gc.enable()

__all__ = [
    "EmbedConfig",
    "EmbeddedFiles",
    "Links",
    "Navi",
    "Neighbour",
    "Neighbours",
    "RowCluster",
    "RowPair",
    "RowRef",
    "SearchIndex",
    "build_index",
    "embed_files",
    "index_frames",
    "index_vectors",
    "open_index",
    "parse_like",
]
