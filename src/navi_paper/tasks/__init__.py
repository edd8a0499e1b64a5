"""Everything that is measured of each encoder."""

from navi_paper.tasks.clustering import CLUSTERING
from navi_paper.tasks.generative import GENERATIVE
from navi_paper.tasks.geometry import GEOMETRY
from navi_paper.tasks.naming import NAMING
from navi_paper.tasks.reconstruction import RECONSTRUCTION
from navi_paper.tasks.reliability import RELIABILITY
from navi_paper.tasks.robustness import ROBUSTNESS
from navi_paper.tasks.row_vectors import ROW_VECTORS
from navi_paper.tasks.text_vectors import TEXT_VECTORS

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
