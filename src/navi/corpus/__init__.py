"""Tables as segments: attributes, tokens, roles, splits, and the corpus that holds them on disk."""

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, ROLES, SegmentArrays
from navi.corpus.attributes import AttributeMapping, canonicalise, load_attributes
from navi.corpus.config import PrepareConfig
from navi.corpus.corpus import Corpus
from navi.corpus.encode import RowEncoder, encode_tables
from navi.corpus.encoded import Encoded
from navi.corpus.inspection import inspect_corpus, inspect_paths
from navi.corpus.pieces import Piece, encode_chunk
from navi.corpus.prepare import ProgressEvent, prepare
from navi.corpus.splits import SPLITS
from navi.corpus.summary import ColumnSummary

__all__ = [
    "ROLES",
    "ROLE_HIGH",
    "ROLE_LOW",
    "ROLE_MID",
    "SPLITS",
    "AttributeMapping",
    "ColumnSummary",
    "Corpus",
    "Encoded",
    "Piece",
    "PrepareConfig",
    "ProgressEvent",
    "RowEncoder",
    "SegmentArrays",
    "canonicalise",
    "encode_chunk",
    "encode_tables",
    "inspect_corpus",
    "inspect_paths",
    "load_attributes",
    "prepare",
]
