"""What a user asks of a trained model: embeddings, names, fills, matches, neighbours."""

from navi.verbs.startup import quick_imports as _quick_imports

with _quick_imports():
    from navi.verbs.embedding import EmbedConfig
    from navi.verbs.files import EmbeddedFiles, embed_files
    from navi.verbs.kept import build_index, open_index
    from navi.verbs.like import parse_like
    from navi.verbs.navi import Navi
    from navi.verbs.pairs import PairsConfig, find_pairs
    from navi.verbs.search import Neighbour, SearchIndex, index_frames

__all__ = [
    "EmbedConfig",
    "EmbeddedFiles",
    "Navi",
    "Neighbour",
    "PairsConfig",
    "SearchIndex",
    "build_index",
    "embed_files",
    "find_pairs",
    "index_frames",
    "open_index",
    "parse_like",
]
