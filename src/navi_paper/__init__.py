"""The evaluation: the paper's tables and figures, NAVI beside every baseline, and what people say is right."""

from navi_paper.data import EvaluationConfig, EvaluationData, Task, TaskResult
from navi_paper.gold import Gold
from navi_paper.grid import MODELS, Grid, GridConfig, GridReport, GridSummary, evaluate
from navi_paper.page import make_page
from navi_paper.results import Cell, Record, Results
from navi_paper.table_encoder import Hidden, TableEncoder

__all__ = [
    "MODELS",
    "Cell",
    "EvaluationConfig",
    "EvaluationData",
    "Gold",
    "Grid",
    "GridConfig",
    "GridReport",
    "GridSummary",
    "Hidden",
    "Record",
    "Results",
    "TableEncoder",
    "Task",
    "TaskResult",
    "evaluate",
    "make_page",
]
