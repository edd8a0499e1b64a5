"""The evaluation: train or take the models, measure every task of every model that is missing, write the page."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

from navi.backbones import BASE_MODEL, WEIGHTS_FILE, load_tokenizer
from navi.errors import ConfigError, MissingExtraError
from navi.files import digest_file, read_json
from navi.report import write_report
from navi.settings import find_misfit
from navi.training import ABLATIONS, PretrainConfig, StepReport, make_preset, pretrain
from navi.training.checkpoint import RunIdentity
from navi.training.trainer import open_corpus
from navi.verbs.loading import CONFIG_FILE, TOKENIZER_FILE
from navi_paper.baselines import BASELINES, load_baseline, train_baseline
from navi_paper.baselines.base import CONFIG_FILE as BASELINE_FILE
from navi_paper.baselines.text import Bert, Extended
from navi_paper.baselines.training import describe_baseline, set_rate
from navi_paper.data import EvaluationConfig, EvaluationData, Task, TaskResult
from navi_paper.gold import Gold
from navi_paper.page import make_page
from navi_paper.results import MODELS_FOLDER, Cell, Record, Results
from navi_paper.table_encoder import PREDICTS_TOKENS, NaviTableEncoder, TableEncoder
from navi_paper.tasks import TASKS
from navi_paper.tasks.classification import CLASSIFIERS

if TYPE_CHECKING:
    from navi.corpus import Corpus

logger = logging.getLogger(__name__)
MODELS = (
    *("frozen", "bert", "bert-extended", "tapas", "haetae", "haetae-extended", "cm2"),
    *("navi-paper", "navi", "navi-plain", "navi-from_base", "navi-paper-as_written"),
    *(f"navi-paper-{each}" for each in ABLATIONS if each != "without_views"),
    *("navi-without_alignment", "navi-without_views"),
)
"""What is compared by default."""
MODEL_FILES = (CONFIG_FILE, BASELINE_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
"""Files of a NAVI or a baseline that decide what it answers."""
VERSIONS = ("navi-tables", "torch", "transformers", "tokenizers", "numpy", "scikit-learn")
"""Packages whose versions stand beside each figure."""
NAVI_PRESETS = {"navi": "default", "navi-paper": "paper"}
"""The whole models by name, and the preset of each."""
FORMER_SETTINGS = {"sampler.tokens_per_batch": None, "training.accumulation": 1, "training.sample_rows": 0}
"""Settings that runs had once: with them, what stands for a model's settings is what it was, and its figures count."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """How a model comes about."""

    name: str
    preset: str | None = None
    """The preset of a NAVI; None for a baseline."""
    ablation: str | None = None
    """What is taken from it."""
    abilities: frozenset[str] = NaviTableEncoder.abilities
    """What tasks may ask of it; of an ablation, only what the paper asks of it."""
    backbone: str | None = None
    """What it starts from, where that is not what all others start from."""
    as_written: bool = False
    """Whether batches and schedule are the preset's, not those of all others."""
    trained_as: str | None = None
    """The model whose weights it has, where only what is read from them differs."""
    tasks: tuple[str, ...] = ()
    """What is measured of it; nothing named is everything."""

    @property
    def folder(self) -> str:
        """The name of the model that is trained for it."""
        return self.trained_as or self.name


_ABLATED = frozenset({PREDICTS_TOKENS})
_POOLED = ("clustering", "row_vectors", *(f"classification_{each}" for each in CLASSIFIERS))
"""Tasks that see how headers and rows are put together."""
_SPECS = (
    *(
        ModelSpec(name=name, abilities=kind.abilities, tasks=() if kind.learns else _POOLED)
        for name, kind in BASELINES.items()
    ),
    *(ModelSpec(name=name, preset=preset) for name, preset in NAVI_PRESETS.items()),
    *(
        ModelSpec(name=f"{name}-{each}", preset=preset, ablation=each, abilities=_ABLATED)
        for name, preset in NAVI_PRESETS.items()
        for each in ABLATIONS
    ),
    *(
        ModelSpec(name=f"{name}-extended", trained_as=name, abilities=frozenset(), tasks=_POOLED)
        for name in ("bert", "haetae")
    ),
    ModelSpec(name="navi-plain", preset="default", trained_as="navi", tasks=_POOLED),
    ModelSpec(name="navi-from_base", preset="default", backbone=BASE_MODEL),
    ModelSpec(name="navi-paper-as_written", preset="paper", as_written=True, abilities=_ABLATED),
)
SPECS = {spec.name: spec for spec in _SPECS}
"""All that can be compared, by name."""


def make_config(
    spec: ModelSpec, shared: PretrainConfig, seed: int, rates: Mapping[str, float] | None = None
) -> PretrainConfig:
    """Return a model's settings: its own model, masking and losses; backbone, batches and schedule as for all.

    Epochs are given, or chosen for each model by its own validation loss; `rates` has learning rates of baselines.
    """
    own = make_preset(spec.preset, spec.ablation) if spec.preset else shared
    sampler, training = shared.sampler, shared.training
    if spec.as_written:
        sampler = own.sampler
        schedule = ("epochs", "learning_rate", "new_learning_rate", "weight_decay", "warmup_share")
        training = replace(training, **{name: getattr(own.training, name) for name in schedule})
    backbone = spec.backbone or shared.backbone
    config = replace(own, backbone=backbone, sampler=sampler, training=replace(training, seed=seed))
    return set_rate(config, rates[spec.folder]) if rates and spec.folder in rates else config


def train_model(
    spec: ModelSpec, corpus: Corpus, folder: Path, config: PretrainConfig, progress: Callable[[StepReport], None]
) -> None:
    """Train a model into a folder; what is there already is taken, what was interrupted goes on."""
    if spec.preset is None:
        train_baseline(spec.folder, corpus, folder, config, progress)
    else:
        pretrain(corpus, folder, config, resume=True, progress=progress)


def load_model(spec: ModelSpec, folder: Path, *, device: str | None) -> TableEncoder:
    """Return a trained model, ready to be asked."""
    encoder: TableEncoder
    if spec.preset is None:
        baseline = load_baseline(folder, device=device)
        encoder = Extended(baseline) if spec.trained_as and isinstance(baseline, Bert) else baseline
    else:
        plain = spec.trained_as is not None
        encoder = NaviTableEncoder.from_folder(folder, device=device, plain=plain)
    encoder.name, encoder.abilities = spec.name, spec.abilities
    return encoder


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """What is compared, and how the models are trained."""

    name: str
    """What the corpus is called in the results."""
    models: tuple[ModelSpec, ...]
    """The models."""
    tasks: tuple[Task, ...]
    """What is measured of each."""
    seeds: tuple[int, ...] = (0,)
    """Each model is trained once with each of these."""
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    """Backbone, batches and optimiser of all models."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates of baselines, where they have their own."""
    taken: Mapping[str, Path] = field(default_factory=dict)
    """Folders of models that are taken as they are, by name."""
    device: str | None = None
    """Where models run; None for a GPU if there is one."""


@dataclass(frozen=True, kw_only=True)
class GridReport:
    """Where the evaluation stands."""

    done: int
    """Cells that are done, those of earlier runs among them."""
    total: int
    doing: str
    training: StepReport | None = None


Progress = Callable[[GridReport], None]


@dataclass(frozen=True)
class GridSummary:
    """What a run of the grid came to."""

    done: int
    """Cells that have figures now."""
    failed: tuple[Record, ...]
    left_out: dict[str, str]
    """Tasks that were not done, and what would make them possible."""


def evaluate(
    corpus: Corpus | str | Path,
    out: str | Path,
    *,
    gold: Gold | str | Path | None = None,
    name: str | None = None,
    models: Sequence[str] = MODELS,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    pretrain: PretrainConfig | None = None,
    rates: str | Path | None = None,
    config: EvaluationConfig | None = None,
    taken: Mapping[str, Path] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> GridSummary:
    """Measure models on a corpus, beside every baseline; cells that are done in `out` are taken from there.

    `gold` is what people know of the corpus, or the prefix of its files; tasks that need gold are left out without it.
    `rates` is a file of validation losses by corpus, baseline and learning rate: each baseline takes the rate with the
    lowest one.
    `taken` names folders of models that are not to be trained. The page is written again from all results in `out`.
    """
    for each in sorted(set(taken or {}) - set(models)):
        raise ConfigError(f"The model '{each}' is taken, but not among those compared: {', '.join(models)}.")
    opened, results = open_corpus(corpus), Results.open(out)
    for each, folder in (taken or {}).items():
        check_taken(each, folder, opened)
    known_tasks = {task.name: task for task in TASKS}
    chosen = check_names("task", known_tasks if tasks is None else tasks, known_tasks)
    name = name or opened.path.name
    grid_config = GridConfig(
        name=name,
        models=tuple(SPECS[each] for each in check_names("model", models, SPECS)),
        tasks=tuple(task for name, task in known_tasks.items() if name in chosen),
        seeds=tuple(seeds),
        pretrain=pretrain or PretrainConfig(backbone=str(opened.config.backbone)),
        rates=read_rates(rates, name) if rates is not None else {},
        taken=dict(taken or {}),
        device=device,
    )
    known = gold if isinstance(gold, Gold) else Gold.find(gold) if gold is not None else Gold()
    data = EvaluationData(corpus=opened, gold=known, config=config or EvaluationConfig())
    summary = Grid(data, results, grid_config, progress).run()
    try:
        write_report(make_page(results, summary.left_out), results.folder)
    except MissingExtraError as error:
        # The figures are kept: `navi report` draws them where the extra is there.
        summary.left_out["report.html"] = str(error)
    return summary


def read_rates(file: str | Path, corpus: str) -> dict[str, float]:
    """Return the learning rate with the lowest validation loss of each baseline that a file has for a corpus."""
    content = read_json(Path(file), ConfigError, "Expected validation losses by corpus, baseline and rate.")
    if misfit := find_misfit(content, dict[str, dict[str, dict[str, float]]]):
        raise ConfigError(f"Cannot read {file}: {misfit}.")
    found: dict[str, dict[str, float]] = content.get(corpus, {})
    return {name: float(min(losses, key=lambda rate: losses[rate])) for name, losses in found.items() if losses}


def check_taken(name: str, folder: Path, corpus: Corpus) -> None:
    """Refuse a model whose tokens are not those of the corpus."""
    has_tokenizer = (folder / TOKENIZER_FILE).is_file()
    if has_tokenizer and load_tokenizer(folder).get_vocab() != corpus.tokenizer.get_vocab():
        raise ConfigError(
            f"The model '{name}' in {folder} has another backbone than {corpus.path}: their tokenizers differ. "
            "Prepare the tables again with --backbone and that folder."
        )


def check_names(what: str, names: Iterable[str], known: Iterable[str]) -> Iterable[str]:
    """Return the names if all of them are known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ConfigError(f"Unknown {what} '{unknown[0]}'. Expected some of {', '.join(known)}.")
    return names


class Grid:
    """Fills the cells of an evaluation, only those that are missing; no cell stops another."""

    def __init__(
        self, data: EvaluationData, results: Results, config: GridConfig, progress: Progress | None = None
    ) -> None:
        self.data, self.results, self.config, self._progress = data, results, config, progress
        self.left_out: dict[str, str] = {}
        self._tasks = [task for task in config.tasks if self._is_possible(task)]
        self._about = describe_origin(data, config)
        self._taken = {name: fingerprint_taken(folder) for name, folder in config.taken.items()}
        self._weights: dict[tuple[str, int], str] = {}

    def run(self, *, kept_only: bool = False) -> GridSummary:
        """Measure all that is missing: first every encoder, then what was kept of them; or only the latter."""
        for fill in (self._measure_model, self._measure_arrays)[kept_only:]:
            for seed in self.config.seeds:
                for spec in self.config.models:
                    fill(spec, seed)
        known = {record.cell: record for record in self.results}
        records = [known[cell] for cell in self._list_cells() if cell in known]
        failed = tuple(record for record in records if record.error is not None)
        return GridSummary(len(records) - len(failed), failed, self.left_out)

    def _measure_model(self, spec: ModelSpec, seed: int) -> None:
        missing = [task for task in self._list_missing(spec, seed) if task.after is None]
        if not missing:
            return
        started = monotonic()
        try:
            encoder = self._obtain(spec, seed)
        except Exception as error:
            logger.exception("%s cannot be had", spec.name)
            for task in missing:
                self._keep(task, spec, seed, error, started)
            return
        for task in missing:
            self._measure(task, spec, seed, encoder)

    def _measure_arrays(self, spec: ModelSpec, seed: int) -> None:
        for task in self._list_missing(spec, seed):
            if task.after is None:
                continue
            before = self._name_cell(task.after, spec, seed)
            found = self.results.find(before)
            if found is None:
                continue
            self._weights[spec.name, seed] = str(found.about.get("weights", ""))
            arrays = self.results.load_arrays(before)
            if arrays is None:
                self.left_out[f"{task.name} of {spec.name}"] = f"the arrays of {before} are not in the results folder"
            else:
                self._measure(task, spec, seed, arrays)

    def _obtain(self, spec: ModelSpec, seed: int) -> TableEncoder:
        folder = self.config.taken.get(spec.name)
        if folder is None:
            folder = self.results.folder / MODELS_FOLDER / self.config.name / f"{spec.folder}-{seed}"
            report = partial(self._report, f"{spec.name}: training")
            report()
            train_model(spec, self.data.corpus, folder, self._configure(spec, seed), report)
        self._weights[spec.name, seed] = fingerprint_taken(folder)[:16]
        return load_model(spec, folder, device=self.config.device)

    def _measure(self, task: Task, spec: ModelSpec, seed: int, measured: Any) -> None:
        self._report(f"{spec.name}: {task.name}")
        started = monotonic()
        try:
            found: TaskResult | Exception = task(measured, self.data)
        except Exception as error:
            logger.exception("%s of %s failed", task.name, spec.name)
            found = error
        self._keep(task, spec, seed, found, started)

    def _keep(self, task: Task, spec: ModelSpec, seed: int, found: TaskResult | Exception, started: float) -> None:
        result = found if isinstance(found, TaskResult) else TaskResult({})
        record = Record(
            **asdict(self._name_cell(task.name, spec, seed)),
            digest=self._digest(spec, seed),
            measures=result.measures,
            error=f"{type(found).__name__}: {found}" if isinstance(found, Exception) else None,
            seconds=round(monotonic() - started, 3),
            about=self._about | {"weights": self._weights.get((spec.name, seed), "")},
        )
        self.results.add(record, result.arrays)

    def _is_possible(self, task: Task) -> bool:
        lacking = self.data.gold.lacks(task.needs)
        if lacking:
            self.left_out[task.name] = f"there is no gold for {', '.join(lacking)} (--gold)"
        elif missing := task.missing():
            self.left_out[task.name] = missing
        return task.name not in self.left_out

    def _list_tasks(self, spec: ModelSpec) -> list[Task]:
        asked = [task for task in self._tasks if not spec.tasks or task.name in spec.tasks]
        able = [task for task in asked if task.requires <= spec.abilities]
        names = {task.name for task in able}
        return [task for task in able if task.after is None or task.after in names]

    def _list_missing(self, spec: ModelSpec, seed: int) -> list[Task]:
        digest = self._digest(spec, seed)
        tasks = self._list_tasks(spec)
        return [task for task in tasks if self.results.find(self._name_cell(task.name, spec, seed), digest) is None]

    def _list_cells(self) -> list[Cell]:
        return [
            self._name_cell(task.name, spec, seed)
            for seed in self.config.seeds
            for spec in self.config.models
            for task in self._list_tasks(spec)
        ]

    def _name_cell(self, task: str, spec: ModelSpec, seed: int) -> Cell:
        return Cell(corpus=self.config.name, task=task, model=spec.name, seed=seed)

    def _configure(self, spec: ModelSpec, seed: int) -> PretrainConfig:
        return make_config(spec, self.config.pretrain, seed, self.config.rates)

    def _digest(self, spec: ModelSpec, seed: int) -> str:
        """Return what stands for a model's settings, the corpus, its gold and the amounts looked at."""
        config, corpus = self._configure(spec, seed), self.data.corpus
        training: Any = self._taken.get(spec.name)
        if training is None and spec.preset is None:
            training = describe_baseline(spec.folder, corpus, config)
        elif training is None:
            training = RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint).describe() | FORMER_SETTINGS
        parts = [self.data.gold.fingerprint, asdict(self.data.config), training]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _report(self, doing: str, training: StepReport | None = None) -> None:
        if self._progress is None:
            return
        cells = self._list_cells()
        done = sum(self.results.find(cell) is not None for cell in cells)
        self._progress(GridReport(done=done, total=len(cells), doing=doing, training=training))


def fingerprint_taken(folder: Path) -> str:
    """Return what stands for a model that is taken: its files, so that another one in its place is noticed.

    A folder that holds no model stands for itself: opening it is what fails, and the cell says so.
    """
    files = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
    digests = b"".join(bytes.fromhex(digest_file(file)) for file in files)
    return hashlib.sha256(digests).hexdigest() if files else str(folder)


def find_commit() -> str | None:
    """Return the commit that this code is of, with a plus behind it if it was changed since; None outside git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit, changed = (
            subprocess.run([*git, *arguments], capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "-uno", "."))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+" if changed else commit


def describe_origin(data: EvaluationData, config: GridConfig) -> dict[str, Any]:
    """Return where a figure comes from: command, commit, versions, device and corpus."""
    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    versions = {}
    for name in VERSIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": os.environ.get("NAVI_COMMIT") or find_commit(),
        "versions": {**versions, "python": platform.python_version()},
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "fingerprint": data.corpus.fingerprint,
    }
