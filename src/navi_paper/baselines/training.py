"""Training a baseline as NAVI is trained, the same batches, steps and optimiser; and loading it again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import Tensor, nn
from transformers import BertConfig

from navi.backbones import WEIGHTS_FILE, load_tokenizer
from navi.batches import prefetch, split_rows
from navi.errors import ConfigError, ModelError, TrainingError
from navi.files import read_json, write_folder, write_json
from navi.model.backbone import check_shape
from navi.randomness import make_key
from navi.training.checkpoint import RunState, writing
from navi.training.config import PretrainConfig
from navi.training.metrics import MAX_SKIPPED, VALIDATION_EPOCH, StepReport, TrainingLog, choose_rows
from navi.training.processes import Processes
from navi.training.step import autocast, choose_dtype, make_optimizer, make_sums, scale_rate, take_step
from navi.training.trainer import Progress, RunPlan
from navi_paper.baselines.base import CONFIG_FILE, Baseline, Batch, read_record
from navi_paper.baselines.cm2 import Cm2
from navi_paper.baselines.haetae import Haetae
from navi_paper.baselines.tapas import Tapas
from navi_paper.baselines.text import Bert, Frozen
from navi_paper.table_encoder import Ints

if TYPE_CHECKING:
    from navi.corpus import Corpus

BASELINES: dict[str, type[Baseline]] = {kind.name: kind for kind in (Bert, Tapas, Haetae, Cm2, Frozen)}
"""Every baseline by its name."""
RECORD_FILE = "training.json"
"""What the run was; it is written last."""
SCHEDULE = ("epochs", "max_steps", "learning_rate", "new_learning_rate", "weight_decay", "warmup_share", "clip_norm")
MATTERING = (*SCHEDULE, "seed", "precision", "validate_rows")
"""Settings of `TrainingConfig` that change what a baseline learns."""
MAX_TOKENS = {"cuda": 131072, "cpu": 16384}
"""A step of more tokens is taken in parts: bounds memory."""


def train_baseline(
    name: str, corpus: Corpus, out: str | Path, config: PretrainConfig, progress: Progress | None = None
) -> Path:
    """Train a baseline on a corpus's training rows and return its folder `out`, at once if it is there already.

    Everything is written beside the folder first and renamed when it is done: a folder of that name is always whole.
    The sections of the configuration that are NAVI's own (model, masking, alignment) have no bearing here.
    """
    kind, folder, identity = _find(name), Path(out), describe_baseline(name, corpus, config)
    if folder.exists() and any(folder.iterdir()):
        _check_finished(folder, identity)
        return folder
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.random.fork_rng(list(range(torch.cuda.device_count()))):
        torch.manual_seed(make_key(config.training.seed))
        baseline = kind.from_backbone(config.backbone, corpus.tokenizer).to(device)
        with writing(folder), write_folder(folder) as aside:
            run = BaselineTrainer(baseline, corpus, config, aside, progress)
            if kind.learns:
                run.finish()
            baseline.save(aside)
            record = {"identity": identity, "steps": run.state.step, "skipped": run.log.fetch_skipped()[0]}
            speed = {"seconds": run.log.seconds, "rows_per_second": run.log.num_rows / max(run.log.seconds, 1e-9)}
            write_json(aside / RECORD_FILE, record | {"losses": run.losses} | speed)
    return folder


def load_baseline(folder: str | Path, device: str | torch.device | None = None) -> Baseline:
    """Return a trained baseline, ready to embed, in bfloat16 on a GPU, else in float32."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    record, file = read_record(folder), Path(folder) / WEIGHTS_FILE
    shape = check_shape(record["config"], Path(folder) / CONFIG_FILE)
    baseline = _find(str(record["name"]))(BertConfig(**shape), load_tokenizer(folder))
    try:
        load_model(baseline, str(file))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"Cannot read {file}: {error}. Train the baseline again.") from error
    return baseline.eval().to(place, torch.bfloat16 if place.type == "cuda" else torch.float32)


def describe_baseline(name: str, corpus: Corpus, config: PretrainConfig) -> dict[str, Any]:
    """Return all that decides what a baseline becomes."""
    settings = config.to_dict()
    return {
        "baseline": name,
        "backbone": config.backbone,
        "corpus": corpus.fingerprint,
        # With settings that there were once, so that figures and baselines of then still count.
        "sampler": settings["sampler"] | {"tokens_per_batch": None},
        "training": {key: settings["training"][key] for key in MATTERING} | {"accumulation": 1},
    }


class BaselineTrainer:
    """The steps of one run, from the first to the last."""

    def __init__(
        self, baseline: Baseline, corpus: Corpus, config: PretrainConfig, folder: Path, progress: Progress | None
    ) -> None:
        self.baseline, self.arrays, self.config, self.progress = baseline, corpus.arrays, config.training, progress
        self.device = baseline.device
        self.dtype = choose_dtype(self.config.precision, self.device)
        self.plan = RunPlan(corpus.arrays, corpus.rows_of("train"), config)
        self.validation_rows = choose_rows(corpus.rows_of("validation"), self.config.validate_rows, self.config.seed)
        self.losses: list[float] = []
        """The loss on validation rows after each epoch."""
        self.optimizer = make_optimizer(baseline, config.training, baseline.is_new)
        self.state = RunState()
        self.log = TrainingLog(folder, Processes(device=self.device), self.state)
        self._row_tokens = corpus.arrays.count_row_tokens()

    def finish(self) -> None:
        """Take all steps, and report each; where no epochs are given, as many as lower the validation loss, as NAVI."""
        while self.state.step < self.plan.num_steps:
            self.baseline.train()
            epoch, workers = self.plan.find_epoch(self.state.step), self.config.workers
            steps = self.plan.list_steps(epoch, self.state.step)
            ready = prefetch(steps, partial(self._build, epoch=epoch), workers=workers, ahead=2 * workers + 2)
            with closing(cast("Generator[tuple[Ints, list[Batch]]]", ready)):
                for rows, batches in ready:
                    sums, finite = self._take(batches)
                    self.log.add(len(rows), int(self._row_tokens[rows].sum()), sums, finite)
                    self._report()
            self._validate()
        self.baseline.eval()

    @torch.no_grad()
    def _validate(self) -> None:
        """Measure the loss on validation rows; one that is not the lowest leaves one more epoch, at a falling rate."""
        if not len(self.validation_rows):
            return
        self.baseline.eval()
        total, count = 0.0, 0
        pieces = split_rows(self.validation_rows, self.arrays.row_table, self._row_tokens, MAX_TOKENS["cpu"])
        for rows in pieces:
            batch = self.baseline.make_batch(self.arrays, rows, seed=self.config.seed, epoch=VALIDATION_EPOCH)
            targets = len(batch["target_position"])
            with autocast(self.device, self.dtype):
                loss = self.baseline.compute_loss({name: each.to(self.device) for name, each in batch.items()})
            total, count = total + float(loss) * targets, count + targets
        self.losses.append(total / max(1, count))
        self.log.write_validation({"epoch": len(self.losses), "masked_loss": self.losses[-1]})
        if self.config.epochs is None and self.losses[-1] > min(self.losses):
            end = min(self.plan.num_steps, self.state.step + self.plan.epoch_steps)
            self.plan.num_steps = self.plan.most_steps = min(self.plan.most_steps, end)

    def _build(self, rows: Ints, *, epoch: int) -> tuple[Ints, list[Batch]]:
        """Return the rows of a step and the batches it is taken in; threads may call this side by side."""
        parts = split_rows(rows, self.arrays.row_table, self._row_tokens, MAX_TOKENS[self.device.type])
        batches = [self.baseline.make_batch(self.arrays, part, seed=self.config.seed, epoch=epoch) for part in parts]
        if self.device.type == "cuda":
            batches = [{name: tensor.pin_memory() for name, tensor in batch.items()} for batch in batches]
        return rows, batches

    def _take(self, batches: list[Batch]) -> tuple[Tensor, Tensor]:
        """Take a step, which changes nothing where it is not finite; return its sums, and whether they are."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        # Weighed by its targets, the losses of the parts add up to the mean over all targets.
        counts = [len(batch["target_position"]) for batch in batches]
        for number, batch in enumerate(batches):
            torch.manual_seed(make_key(self.config.seed, self.state.step, number))
            here = {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}
            with autocast(self.device, self.dtype):
                part = self.baseline.compute_loss(here) * (counts[number] / max(1, sum(counts)))
            torch.autograd.backward(part)
            loss += part.detach()
        norm = nn.utils.clip_grad_norm_(self.baseline.parameters(), self.config.clip_norm)
        sums = make_sums({"loss": loss, "masked": loss, "norm": norm}, self.device)
        finite = torch.isfinite(sums).all()
        take_step(self.optimizer, scale_rate(self.state.step, self.plan.num_steps, self.config.warmup_share), finite)
        self.state.step += 1
        self.baseline.after_step(self.state.step)
        return sums, finite

    def _report(self) -> None:
        """Write a line of the steps since the last one if it is due; only then the host waits for the device."""
        step, epoch = self.state.step, self.plan.find_epoch(self.state.step - 1) + 1
        if step % self.config.log_every == 0 or step == self.plan.num_steps:
            in_a_row = self.log.fetch_skipped()[1]
            if in_a_row >= MAX_SKIPPED:
                raise TrainingError(
                    f"The loss of the baseline '{self.baseline.name}' was not finite {in_a_row} steps in a row; "
                    f"stopped at step {step}. Lower the learning rates."
                )
            self.log.write_train({"epoch": epoch})
        if self.progress is not None:
            left, num_steps = self.log.estimate(self.plan.num_steps - step), self.plan.num_steps
            report = StepReport(
                step=step, num_steps=num_steps, epoch=epoch, seconds_left=left, metrics=self.state.train
            )
            self.progress(report)


def set_rate(config: PretrainConfig, rate: float) -> PretrainConfig:
    """Return settings with another learning rate."""
    return replace(config, training=replace(config.training, learning_rate=rate, new_learning_rate=2.5 * rate))


def _find(name: str) -> type[Baseline]:
    if name not in BASELINES:
        raise ConfigError(f"Unknown baseline '{name}'. Expected one of {', '.join(BASELINES)}.")
    return BASELINES[name]


def _check_finished(folder: Path, identity: dict[str, Any]) -> None:
    """Raise unless a folder holds the baseline that is asked for."""
    if not (folder / CONFIG_FILE).is_file():
        raise ConfigError(f"{folder} holds files that are not a baseline's. Give a new or an empty directory.")
    remedy = "Remove the folder, and the baseline is trained again."
    found = read_json(folder / RECORD_FILE, ModelError, remedy).get("identity", {})
    differing = [key for key, entry in identity.items() if found.get(key) != entry]
    if differing:
        raise ConfigError(
            f"{folder} holds a baseline trained otherwise: it differs in {', '.join(differing)}. "
            "Give another directory, or remove this one."
        )
