"""The evaluation: the paper's tables and figures, NAVI beside every baseline, and what people say is right."""

from navi_paper.bench import Bench, BenchConfig
from navi_paper.encoder import Hidden, TableEncoder
from navi_paper.evaluate import MODELS, evaluate
from navi_paper.gold import Gold
from navi_paper.grid import Grid, GridConfig, GridReport, GridSummary
from navi_paper.results import Cell, Record, Results
from navi_paper.task import Outcome, Sequel, Task

__all__ = [
    "MODELS",
    "Bench",
    "BenchConfig",
    "Cell",
    "Gold",
    "Grid",
    "GridConfig",
    "GridReport",
    "GridSummary",
    "Hidden",
    "Outcome",
    "Record",
    "Results",
    "Sequel",
    "TableEncoder",
    "Task",
    "evaluate",
]
