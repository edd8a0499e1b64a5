"""Row classification: classifiers on the vectors that tasks kept, and on features made of the cells."""

from navi_paper.classification.features import FEATURES
from navi_paper.classification.scoring import CLASSIFICATION

SEQUELS = (*CLASSIFICATION, *FEATURES)
"""Everything that is measured of what tasks kept, in the order it is run."""

__all__ = ["CLASSIFICATION", "FEATURES", "SEQUELS"]
