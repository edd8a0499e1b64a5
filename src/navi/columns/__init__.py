"""Columns: what is known of each one, and how much two of them speak for the same meaning."""

from navi.columns.features import FEATURES, Background, have_headers, measure_features
from navi.columns.headers import is_useless, split_place
from navi.columns.perturb import perturb_header, perturb_values
from navi.columns.profiles import COLUMNS_FILE, ColumnProfiles, join_profiles, sketch_columns
from navi.columns.scorer import PairScorer, PairScores, load_packaged, measure_competition
from navi.columns.states import average_columns, choose_rows
from navi.columns.texts import profile_columns

__all__ = [
    "COLUMNS_FILE",
    "FEATURES",
    "Background",
    "ColumnProfiles",
    "PairScorer",
    "PairScores",
    "average_columns",
    "choose_rows",
    "have_headers",
    "is_useless",
    "join_profiles",
    "load_packaged",
    "measure_competition",
    "measure_features",
    "perturb_header",
    "perturb_values",
    "profile_columns",
    "sketch_columns",
    "split_place",
]
