"""Tables as segments: attributes, tokens, roles, splits, and the corpus that holds them on disk."""

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, ROLES, SPLITS, ColumnSummary, Encoded, SegmentArrays
from navi.corpus.corpus import Corpus, InspectedColumn, InspectedTable, Inspection, inspect_corpus
from navi.corpus.encode import RowEncoder
from navi.corpus.prepare import ProgressEvent, inspect_paths, prepare
from navi.corpus.prepareconfig import AttributeMapping, PrepareConfig, canonicalise, load_attributes

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
    "InspectedColumn",
    "InspectedTable",
    "Inspection",
    "PrepareConfig",
    "ProgressEvent",
    "RowEncoder",
    "SegmentArrays",
    "canonicalise",
    "inspect_corpus",
    "inspect_paths",
    "load_attributes",
    "prepare",
]
