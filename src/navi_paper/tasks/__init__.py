"""Everything that is measured of each encoder, or of what earlier tasks kept of it."""

from navi_paper.tasks.classification import CLASSIFICATION, ROW_VECTORS, TEXT_VECTORS
from navi_paper.tasks.clustering import CLUSTERING, GEOMETRY
from navi_paper.tasks.naming import NAMING
from navi_paper.tasks.prediction import GENERATIVE, RECONSTRUCTION, RELIABILITY, ROBUSTNESS

ENCODER_TASKS = (
    *(GENERATIVE, RECONSTRUCTION, CLUSTERING, ROBUSTNESS, NAMING, GEOMETRY),
    *(ROW_VECTORS, TEXT_VECTORS, RELIABILITY),
)
TASKS = (*ENCODER_TASKS, *CLASSIFICATION)
"""The tasks, in the order they are run."""

__all__ = ["ENCODER_TASKS", "TASKS"]
