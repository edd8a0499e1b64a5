"""Everything that is measured of each encoder."""

from navi.evaluation.tasks.clustering import CLUSTERING
from navi.evaluation.tasks.generative import GENERATIVE
from navi.evaluation.tasks.geometry import GEOMETRY
from navi.evaluation.tasks.naming import NAMING
from navi.evaluation.tasks.reconstruction import RECONSTRUCTION
from navi.evaluation.tasks.reliability import RELIABILITY
from navi.evaluation.tasks.robustness import ROBUSTNESS
from navi.evaluation.tasks.row_vectors import ROW_VECTORS
from navi.evaluation.tasks.text_vectors import TEXT_VECTORS

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

__all__ = [
    "CLUSTERING",
    "GENERATIVE",
    "GEOMETRY",
    "NAMING",
    "RECONSTRUCTION",
    "RELIABILITY",
    "ROBUSTNESS",
    "ROW_VECTORS",
    "TASKS",
    "TEXT_VECTORS",
]
