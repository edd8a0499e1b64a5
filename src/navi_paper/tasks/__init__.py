"""Everything that is measured of each encoder."""

from navi_paper.tasks.clustering import CLUSTERING, GEOMETRY
from navi_paper.tasks.naming import NAMING
from navi_paper.tasks.prediction import GENERATIVE, RECONSTRUCTION, RELIABILITY, ROBUSTNESS
from navi_paper.tasks.rows import ROW_VECTORS, TEXT_VECTORS

TASKS = (
    GENERATIVE,
    RECONSTRUCTION,
    CLUSTERING,
    ROBUSTNESS,
    NAMING,
    GEOMETRY,
    ROW_VECTORS,
    TEXT_VECTORS,
    RELIABILITY,
)
"""The tasks, in the order they are run."""

__all__ = ["TASKS"]
