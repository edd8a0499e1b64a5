"""Everything that is measured of what tasks kept."""

from navi.evaluation.classification import CLASSIFICATION
from navi.evaluation.features import FEATURES

SEQUELS = (*CLASSIFICATION, *FEATURES)
"""The sequels, in the order they are run."""

__all__ = ["SEQUELS"]
