"""What a user asks of a trained model: embeddings, names, fills, matches, neighbours."""

from navi.verbs.startup import quick_imports as _quick_imports

with _quick_imports():
    from navi.verbs.embedding import EmbedConfig
    from navi.verbs.files import EmbeddedFiles, embed_files
    from navi.verbs.index_store import build_index, open_index
    from navi.verbs.link import Pairs, find_pairs
    from navi.verbs.navi import Navi
    from navi.verbs.search import Neighbour, Neighbours, SearchIndex, index_frames, parse_like

__all__ = [
    "EmbedConfig",
    "EmbeddedFiles",
    "Navi",
    "Neighbour",
    "Neighbours",
    "Pairs",
    "SearchIndex",
    "build_index",
    "embed_files",
    "find_pairs",
    "index_frames",
    "open_index",
    "parse_like",
]
