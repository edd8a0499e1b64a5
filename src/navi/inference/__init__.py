"""What a user asks of a trained model: embeddings, names, fills, matches, neighbours."""

from navi.inference.startup import quick_imports as _quick_imports

with _quick_imports():
    from navi.inference.embedding import EmbedConfig
    from navi.inference.files import EmbeddedFiles, embed_files
    from navi.inference.kept import build_index, open_index
    from navi.inference.like import parse_like
    from navi.inference.navi import Navi
    from navi.inference.pairs import PairsConfig, find_pairs
    from navi.inference.search import Neighbour, SearchIndex, index_frames

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
