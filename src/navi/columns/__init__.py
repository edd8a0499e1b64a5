"""Columns: what is known of each one, and how much two of them speak for the same meaning."""

from navi.columns.features import FEATURES, Background, measure_features
from navi.columns.headers import find_stem, is_useless
from navi.columns.perturb import perturb_header, perturb_values
from navi.columns.profiles import COLUMNS_FILE, ColumnProfiles, join_profiles, sketch_columns
from navi.columns.scorer import DEFAULT_SCORER, PairScorer, PairScores, fit_scorer
from navi.columns.states import STATES, average_columns, average_states, choose_rows, profile_columns, survey_columns

__all__ = [
    "COLUMNS_FILE",
    "DEFAULT_SCORER",
    "FEATURES",
    "STATES",
    "Background",
    "ColumnProfiles",
    "PairScorer",
    "PairScores",
    "average_columns",
    "average_states",
    "choose_rows",
    "find_stem",
    "fit_scorer",
    "is_useless",
    "join_profiles",
    "measure_features",
    "perturb_header",
    "perturb_values",
    "profile_columns",
    "sketch_columns",
    "survey_columns",
]
