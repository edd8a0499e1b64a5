"""Profiles: what is known of each column, and how much two columns speak for the same meaning."""

from navi.columns.columns import ColumnProfiles, join_profiles, profile_columns
from navi.columns.evidence import EVIDENCE, HEADER_EVIDENCE, VALUE_EVIDENCE, Background, measure_evidence
from navi.columns.fitting import fit_scorer
from navi.columns.scorer import DEFAULT_SCORER, PairScorer, PairScores
from navi.columns.sketches import Sketches, sketch_columns
from navi.columns.survey import survey_columns
from navi.columns.useless import is_useless

__all__ = [
    "DEFAULT_SCORER",
    "EVIDENCE",
    "HEADER_EVIDENCE",
    "VALUE_EVIDENCE",
    "Background",
    "ColumnProfiles",
    "PairScorer",
    "PairScores",
    "Sketches",
    "fit_scorer",
    "is_useless",
    "join_profiles",
    "measure_evidence",
    "profile_columns",
    "sketch_columns",
    "survey_columns",
]
