"""The whole evaluation: every task of every model, only what is missing, and no cell stops another."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from navi.backbones import WEIGHTS_FILE
from navi.training import PretrainConfig, StepReport
from navi.verbs.loading import CONFIG_FILE, TOKENIZER_FILE
from navi_paper.baselines.baseline import CONFIG_FILE as BASELINE_FILE
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder
from navi_paper.models import ModelSpec, describe_model, load_model, make_config, train_model
from navi_paper.results import Cell, Record, Results
from navi_paper.task import Outcome, Sequel, Task

logger = logging.getLogger(__name__)
MODELS_FOLDER = "models"
MODEL_FILES = (CONFIG_FILE, BASELINE_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
"""Files of a NAVI or a baseline that decide what it answers."""
VERSIONS = ("navi-tables", "torch", "transformers", "tokenizers", "numpy", "scikit-learn")


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """What is compared, and how the models are trained."""

    name: str
    """What the corpus is called in the results."""
    models: tuple[ModelSpec, ...]
    """The models."""
    tasks: tuple[Task, ...]
    """What is measured of each."""
    sequels: tuple[Sequel, ...] = ()
    """What is measured of what tasks kept."""
    seeds: tuple[int, ...] = (0,)
    """Each model is trained once with each of these."""
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    """Backbone, batches and optimiser of all models."""
    taken: dict[str, Path] = field(default_factory=dict)
    """Folders of models that are taken as they are, by name."""
    device: str | None = None
    """Where models run; None for a GPU if there is one."""
    precision: str | None = None
    """How they compute; None for what suits the device."""


@dataclass(frozen=True, kw_only=True)
class GridReport:
    """Where the evaluation stands."""

    done: int
    """Cells that are done, those of earlier runs among them."""
    total: int
    """Cells of the whole grid."""
    doing: str
    """What is being done."""
    training: StepReport | None = None
    """Where the training of a model stands."""


@dataclass(frozen=True)
class GridSummary:
    """What a run of the grid came to."""

    done: int
    """Cells that have figures now."""
    failed: tuple[Record, ...]
    """Cells that failed."""
    left_out: dict[str, str]
    """Tasks that were not done, and what would make them possible."""


class Grid:
    """Fills the cells of an evaluation."""

    def __init__(
        self, bench: Bench, results: Results, config: GridConfig, progress: Callable[[GridReport], None] | None = None
    ) -> None:
        self.bench, self.results, self.config = bench, results, config
        self._progress = progress
        self.left_out: dict[str, str] = {}
        self._tasks = [task for task in config.tasks if self._can_do(task)]
        kept = {task.name for task in self._tasks}
        self._sequels = [each for each in config.sequels if self._can_do(each) and each.after in kept]
        self._about = describe_surroundings(bench, config)
        self._taken = {name: fingerprint_taken(folder) for name, folder in config.taken.items()}

    def run(self) -> GridSummary:
        """Do all that is missing."""
        for seed in self.config.seeds:
            for spec in self.config.models:
                self._do_model(spec, seed)
        for seed in self.config.seeds:
            for spec in self.config.models:
                self._do_sequels(spec, seed)
        records = [record for cell in self._list_cells() if (record := self._record_of(cell)) is not None]
        failed = tuple(record for record in records if record.error is not None)
        return GridSummary(len(records) - len(failed), failed, self.left_out)

    def _do_model(self, spec: ModelSpec, seed: int) -> None:
        missing = [task for task in self._list_tasks(spec) if self._is_missing(task, spec, seed)]
        if not missing:
            return
        started = monotonic()
        try:
            encoder = self._obtain(spec, seed)
        except Exception as error:  # noqa: BLE001 - a model that fails must not stop the others
            for task in missing:
                self._keep(self._cell(task, spec, seed), spec, seed, error, monotonic() - started)
            return
        for task in missing:
            self._tell(f"{spec.name}: {task.name}")
            self._measure(self._cell(task, spec, seed), spec, seed, partial(task.run, encoder, self.bench))

    def _do_sequels(self, spec: ModelSpec, seed: int) -> None:
        for sequel in self._sequels:
            if not self._is_missing(sequel, spec, seed):
                continue
            before = Cell(corpus=self.config.name, task=sequel.after, model=spec.name, seed=seed)
            if self.results.find(before) is None:
                continue
            arrays = self.results.load_arrays(before)
            if arrays is None:
                self.left_out[f"{sequel.name} of {spec.name}"] = f"the arrays of {before} are not in the results folder"
                continue
            self._tell(f"{spec.name}: {sequel.name}")
            self._measure(self._cell(sequel, spec, seed), spec, seed, partial(sequel.run, arrays, self.bench))

    def _obtain(self, spec: ModelSpec, seed: int) -> TableEncoder:
        folder = self.config.taken.get(spec.name)
        if folder is None:
            folder = self.results.folder / MODELS_FOLDER / self.config.name / f"{spec.name}-{seed}"
            self._tell(f"{spec.name}: training")
            config = make_config(spec, self.config.pretrain, seed)
            doing = f"{spec.name}: training"
            train_model(spec, self.bench.corpus, folder, config, lambda report: self._tell(doing, report))
        return load_model(spec, folder, device=self.config.device, precision=self.config.precision)

    def _measure(self, cell: Cell, spec: ModelSpec, seed: int, run: Callable[[], Outcome]) -> None:
        started = monotonic()
        try:
            outcome: Outcome | Exception = run()
        except Exception as error:
            logger.exception("%s failed", cell)
            outcome = error
        self._keep(cell, spec, seed, outcome, monotonic() - started)

    def _keep(self, cell: Cell, spec: ModelSpec, seed: int, outcome: Outcome | Exception, seconds: float) -> None:
        failed = isinstance(outcome, Exception)
        record = Record(
            **asdict(cell),
            digest=self._digest(spec, seed),
            measures={} if isinstance(outcome, Exception) else outcome.measures,
            error=f"{type(outcome).__name__}: {outcome}" if failed else None,
            seconds=round(seconds, 3),
            about=self._about,
        )
        self.results.add(record, None if isinstance(outcome, Exception) else outcome.arrays)

    def _can_do(self, task: Task | Sequel) -> bool:
        lacking = self.bench.gold.lacks(task.needs)
        if lacking:
            self.left_out[task.name] = f"there is no gold for {', '.join(lacking)} (--gold)"
        elif isinstance(task, Sequel) and task.module is not None and find_spec(task.module) is None:
            self.left_out[task.name] = f"install the extra: pip install 'navi-tables[{task.extra}]'"
        return task.name not in self.left_out

    def _list_tasks(self, spec: ModelSpec) -> list[Task]:
        return [
            task
            for task in self._tasks
            if (task.only is None or spec.name in task.only) and (spec.predicts_tokens or not task.tokens)
        ]

    def _list_cells(self) -> list[Cell]:
        return [
            self._cell(task, spec, seed)
            for seed in self.config.seeds
            for spec in self.config.models
            for task in self._list_all(spec)
        ]

    def _list_all(self, spec: ModelSpec) -> list[Task | Sequel]:
        tasks = self._list_tasks(spec)
        kept = {task.name for task in tasks}
        return [*tasks, *(sequel for sequel in self._sequels if sequel.after in kept)]

    def _cell(self, task: Task | Sequel, spec: ModelSpec, seed: int) -> Cell:
        return Cell(corpus=self.config.name, task=task.name, model=spec.name, seed=seed)

    def _record_of(self, cell: Cell) -> Record | None:
        return next((record for record in self.results if record.cell == cell), None)

    def _is_missing(self, task: Task | Sequel, spec: ModelSpec, seed: int) -> bool:
        return self.results.find(self._cell(task, spec, seed), self._digest(spec, seed)) is None

    def _digest(self, spec: ModelSpec, seed: int) -> str:
        """Return what stands for a model's settings, the corpus, its gold and the amounts looked at."""
        config = make_config(spec, self.config.pretrain, seed)
        training = self._taken.get(spec.name) or describe_model(spec, self.bench.corpus, config)
        parts = [self.bench.gold.fingerprint, asdict(self.bench.config), training]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _tell(self, doing: str, training: StepReport | None = None) -> None:
        if self._progress is None:
            return
        cells = self._list_cells()
        done = sum(self.results.find(cell) is not None for cell in cells)
        self._progress(GridReport(done=done, total=len(cells), doing=doing, training=training))


def fingerprint_taken(folder: Path) -> str:
    """Return what stands for a model that is taken: its files, so that one trained anew in its place is another.

    A folder that holds no model stands for itself: opening it is what fails, and is told with the cell.
    """
    files = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest() if files else str(folder)


def describe_surroundings(bench: Bench, config: GridConfig) -> dict[str, Any]:
    """Return what a figure must be able to tell of where it comes from."""
    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {name: version(name) for name in VERSIONS if _is_installed(name)}
        | {"python": platform.python_version()},
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "fingerprint": bench.corpus.fingerprint,
    }


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
