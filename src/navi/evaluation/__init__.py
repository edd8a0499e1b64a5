"""The evaluation: the paper's tables and figures, NAVI beside every baseline, and what people say is right."""

from navi.evaluation.bench import Bench, BenchConfig
from navi.evaluation.encoder import Hidden, TableEncoder
from navi.evaluation.evaluate import MODELS, evaluate
from navi.evaluation.gold import Gold
from navi.evaluation.grid import Grid, GridConfig, GridReport, GridSummary
from navi.evaluation.results import Cell, Record, Results
from navi.evaluation.task import Outcome, Sequel, Task

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
