"""The evaluation in one call: train or take the models, fill the cells, write the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from navi.errors import ConfigError, MissingExtraError
from navi.report import write_report
from navi.training import PretrainConfig
from navi.training.run import open_corpus
from navi_paper.bench import Bench, BenchConfig
from navi_paper.classification import SEQUELS
from navi_paper.gold import Gold
from navi_paper.grid import Grid, GridConfig, GridReport, GridSummary
from navi_paper.labels import add_single_tables
from navi_paper.models import find_model
from navi_paper.page import make_page
from navi_paper.results import Results
from navi_paper.task import Sequel, Task
from navi_paper.tasks import TASKS

if TYPE_CHECKING:
    from navi.corpus import Corpus

Named = TypeVar("Named", Task, Sequel)
MODELS = (
    "bert",
    "tapas",
    "haetae",
    "cm2",
    "navi-paper",
    "navi",
    "navi-paper-without_attributes",
    "navi-paper-without_segment_masking",
    "navi-paper-without_alignment",
    "navi-paper-random_routing",
    "navi-without_alignment",
)
"""What is compared if nobody says otherwise."""


def evaluate(
    corpus: Corpus | str | Path,
    out: str | Path,
    *,
    gold: Gold | str | Path | None = None,
    single_tables: str | Path | None = None,
    name: str | None = None,
    models: Sequence[str] = MODELS,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    pretrain: PretrainConfig | None = None,
    bench: BenchConfig | None = None,
    taken: Mapping[str, Path] | None = None,
    device: str | None = None,
    precision: str | None = None,
    progress: Callable[[GridReport], None] | None = None,
) -> GridSummary:
    """Measure models on a corpus, beside every baseline; cells that are done in `out` are taken from there.

    `gold` is what people know of the corpus, or the prefix of its files; tasks that need gold are left out without it.
    `single_tables` is a file of further classifications, each of the rows of one table.
    `taken` names folders of models that are not to be trained. The page is written anew from all results in `out`.
    """
    unknown = set(taken or {}) - set(models)
    if unknown:
        raise ConfigError(
            f"The model '{sorted(unknown)[0]}' is taken, but not among those compared: {', '.join(models)}."
        )
    opened = open_corpus(corpus)
    results = Results.open(out)
    config = GridConfig(
        name=name or opened.path.name,
        models=tuple(find_model(each) for each in models),
        tasks=_choose(TASKS, tasks),
        sequels=_choose(SEQUELS, tasks),
        seeds=tuple(seeds),
        pretrain=pretrain or PretrainConfig(backbone=str(opened.config.backbone)),
        taken=dict(taken or {}),
        device=device,
        precision=precision,
    )
    known = gold if isinstance(gold, Gold) else Gold.find(gold) if gold is not None else Gold()
    if single_tables is not None:
        known = add_single_tables(known, single_tables)
    grid = Grid(Bench(corpus=opened, gold=known, config=bench or BenchConfig()), results, config, progress)
    summary = grid.run()
    try:
        write_report(make_page(results, summary.left_out), results.folder)
    except MissingExtraError as error:
        # The figures are kept: `navi report` draws them where the extra is there.
        summary.left_out["report.html"] = str(error)
    return summary


def _choose(known: tuple[Named, ...], names: Sequence[str] | None) -> tuple[Named, ...]:
    """Return the tasks of these names; all, if none are named."""
    if names is None:
        return known
    expected = [*(task.name for task in TASKS), *(sequel.name for sequel in SEQUELS)]
    missing = set(names) - set(expected)
    if missing:
        raise ConfigError(f"Unknown task '{sorted(missing)[0]}'. Expected some of {', '.join(expected)}.")
    return tuple(task for task in known if task.name in names)
