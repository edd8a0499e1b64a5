"""Tables as segments: attributes, tokens, roles, splits, and the corpus that holds them on disk."""

from navi.segments.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, ROLES, SegmentArrays
from navi.segments.attributes import AttributeMapping, canonicalise, load_attributes
from navi.segments.config import PrepareConfig
from navi.segments.corpus import Corpus
from navi.segments.encode import RowEncoder, encode_tables
from navi.segments.encoded import Encoded
from navi.segments.inspection import inspect_corpus, inspect_paths
from navi.segments.pieces import Piece, encode_chunk
from navi.segments.prepare import ProgressEvent, prepare
from navi.segments.splits import SPLITS
from navi.segments.summary import ColumnSummary

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
