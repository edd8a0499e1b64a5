"""Everything that is measured of each encoder, or of what earlier tasks kept of it."""

from navi_paper.tasks.classification import CLASSIFICATION, ROW_VECTORS, TEXT_VECTORS, VARIANT_VECTORS
from navi_paper.tasks.clustering import CLUSTERING, GEOMETRY
from navi_paper.tasks.prediction import GENERATIVE, RECONSTRUCTION, ROBUSTNESS

ENCODER_TASKS = (
    *(GENERATIVE, RECONSTRUCTION, CLUSTERING, ROBUSTNESS, GEOMETRY),
    *(ROW_VECTORS, VARIANT_VECTORS, TEXT_VECTORS),
)
TASKS = (*ENCODER_TASKS, *CLASSIFICATION)
"""The tasks, in the order they are run."""

__all__ = ["ENCODER_TASKS", "TASKS"]
