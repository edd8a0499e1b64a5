"""How a measure becomes a column, measures a table, and tables a section of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from navi_paper.page.paper import PaperTable

BERT, PAPER, NAVI = "bert", "navi-paper", "navi"
"""The three models that every table has."""
BASELINES = ("tapas", "haetae", "cm2")
ABLATIONS = ("without_attributes", "without_segment_masking", "without_alignment")
MODEL_NAMES: Mapping[str, str] = {
    "bert": "BERT",
    "tapas": "TAPAS",
    "haetae": "HAETAE",
    "cm2": "CM2",
    "navi-paper": "NAVI (paper)",
    "navi": "NAVI",
    "any/raw": "Raw features",
    "any/table_vectorizer": "TableVectorizer",
    "navi-paper/navi_fe": "NAVI_FE (paper)",
    "navi/navi_fe": "NAVI_FE",
}
ABLATION_NAMES: Mapping[str, str] = {
    "without_attributes": "w/o CAE",
    "without_segment_masking": "w/o MSM",
    "without_alignment": "w/o ESA",
    "random_routing": "random routing",
}
ANY = "any"
"""Stands for whichever model has a figure that does not depend on the model."""
WHOLE = (BERT, *BASELINES, PAPER, NAVI)
"""Whole models, in the order of the rows."""
ABLATED = tuple(f"{model}-{ablation}" for model in (PAPER, NAVI) for ablation in ABLATIONS)
KNOWN = (*WHOLE, *ABLATED, f"{PAPER}-random_routing", f"{NAVI}-random_routing")
"""Every model that some table has a place for."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A measure as a column of a table."""

    task: str
    """The task that measures it."""
    measure: str
    """What the task calls it; a star stands for whatever is found there, one column each."""
    name: str
    """What the column is called; a star is put as in the measure."""
    group: str = ""
    """What stands above it and its neighbours."""
    best: str | None = "highest"
    """Which figure is best."""
    digits: int = 3
    """Digits behind the point."""
    paper: str | None = None
    """What the paper's table calls it; its column stands behind ours."""
    loss: str | None = None
    """A measure of how much is lost, relatively, shown beside the figure."""
    floor: str | None = None
    """A measure of what a simple guess gets."""

    @property
    def key(self) -> str:
        """Task and measure in one."""
        return f"{self.task}/{self.measure}"


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """A table: models are rows, measures are columns."""

    caption: str
    """What it shows."""
    columns: tuple[Shown, ...]
    """The measures."""
    models: tuple[str, ...] = WHOLE
    """The rows; those without figures are left out. `MODEL/ROW` is one of several that a model's cells hold: `{row}` in
    a measure is its name, and the model `any` is whichever has it."""
    paper: PaperTable | None = None
    """The paper's table beside which it stands."""
    note: str = ""
    """What is to be said below it."""
    floor: str = ""
    """What the simple guess is called."""
    apart: tuple[str, ...] = ()
    """What a star does not stand for, since it stands elsewhere."""
    highlight: str = NAVI
    """The row that stands out."""
    others: bool = True
    """Whether models that no table has a place for are rows too."""


@dataclass(frozen=True, kw_only=True)
class SectionLayout:
    """A section: some tables and some figures of the same tasks."""

    title: str
    """Its heading."""
    text: str
    """What is to be said first."""
    tables: tuple[TableLayout, ...] = ()
    """Its tables."""
    figures: tuple[str, ...] = ()
    """Its figures, by the names that `navi_paper.page.figures` has for them."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that fill it."""
        return tuple(dict.fromkeys(shown.task for table in self.tables for shown in table.columns))


def name_model(model: str) -> str:
    """Return what a model is called on the page.

    >>> name_model("navi-paper-without_alignment"), name_model("navi-without_alignment")
    ('w/o ESA (paper)', 'w/o ESA')
    """
    if model in MODEL_NAMES:
        return MODEL_NAMES[model]
    for whole, ending in ((PAPER, " (paper)"), (NAVI, "")):
        ablation = model.removeprefix(f"{whole}-")
        if ablation in ABLATION_NAMES:
            return ABLATION_NAMES[ablation] + ending
    return model
