"""Training a baseline as NAVI is trained: the same batches, the same steps, the same optimiser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from navi.batches import prefetch
from navi.errors import ConfigError, ModelError, TrainingError
from navi.randomness import make_key
from navi.training.checkpoint import writing
from navi.training.config import PretrainConfig
from navi.training.log import MetricsLog, SkippedSteps, StepReport, Throughput
from navi.training.plan import Parts, RunPlan, split_rows
from navi.training.step import autocast, choose_dtype, make_optimizer, scale_rate, take_step
from navi_paper.baselines.baseline import CONFIG_FILE, Baseline, Batch
from navi_paper.baselines.catalogue import find_baseline

if TYPE_CHECKING:
    from navi.corpus import Corpus

Progress = Callable[[StepReport], None]
RECORD_FILE = "training.json"
"""What the run was; it is written last."""
MATTERING = (
    "epochs",
    "max_steps",
    "learning_rate",
    "new_learning_rate",
    "weight_decay",
    "warmup_share",
    "clip_norm",
    "accumulation",
    "seed",
    "precision",
)
"""Settings of `TrainingConfig` that change what a baseline learns."""
MAX_TOKENS = {"cuda": 131072, "cpu": 16384}
"""A step of more tokens is taken in parts."""


def train_baseline(
    name: str, corpus: Corpus, out: str | Path, config: PretrainConfig, progress: Progress | None = None
) -> Path:
    """Train a baseline on a corpus's training rows and return its folder `out`, at once if it is there already.

    Everything is written beside `out` first and renamed when it is done: a folder of that name is always whole. The
    sections of the configuration that are NAVI's own (model, masking, alignment) have no bearing here.
    """
    kind, folder = find_baseline(name), Path(out)
    identity = describe_baseline(name, corpus, config)
    if folder.exists() and any(folder.iterdir()):
        _check_finished(folder, identity)
        return folder
    scratch = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.random.fork_rng(list(range(torch.cuda.device_count()))):
        torch.manual_seed(make_key(config.training.seed))
        baseline = kind.from_backbone(config.backbone, corpus.tokenizer).to(device)
        with writing(scratch):
            scratch.mkdir(parents=True)
        run = BaselineRun(baseline, corpus, config, scratch, progress)
        run.finish()
    with writing(folder):
        baseline.save(scratch)
        record = {
            "identity": identity,
            "steps": run.step,
            "skipped": run.skipped.fetch()[0],
            **run.measure_throughput(),
        }
        (scratch / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        scratch.rename(folder)
    return folder


def describe_baseline(name: str, corpus: Corpus, config: PretrainConfig) -> dict[str, Any]:
    """Return all that decides what a baseline becomes."""
    settings = config.to_dict()
    return {
        "baseline": name,
        "backbone": config.backbone,
        "corpus": corpus.fingerprint,
        "sampler": settings["sampler"],
        "training": {key: settings["training"][key] for key in MATTERING},
    }


@dataclass(frozen=True)
class StepBatches:
    """The batches of one step."""

    batches: list[Batch]
    """The parts that the step is taken in."""
    shares: list[float]
    """Share of each part in the step's targets, so that their losses add up to the mean over all targets."""
    num_rows: int
    """Rows of the step."""
    num_tokens: int
    """Tokens of the step."""


class BaselineRun:
    """The steps of one run, from the first to the last."""

    def __init__(
        self, baseline: Baseline, corpus: Corpus, config: PretrainConfig, folder: Path, progress: Progress | None
    ) -> None:
        self.baseline, self.corpus, self.config, self.progress = baseline, corpus, config.training, progress
        self.device = baseline.device
        self.dtype = choose_dtype(self.config.precision, self.device)
        self.plan = RunPlan(corpus.arrays, corpus.rows_of("train"), config)
        self.optimizer = make_optimizer(baseline, config.training, baseline.is_new)
        self.metrics = MetricsLog(folder, events=False)
        self.skipped = SkippedSteps(self.device)
        self.throughput = Throughput()
        self.step = 0
        self.latest: dict[str, Any] = {}
        self._row_tokens = corpus.arrays.count_row_tokens()
        self._loss = torch.zeros((), device=self.device)
        self._num_losses = 0
        if self.config.compile:
            for layer in baseline.layers:
                layer.compile(dynamic=True)

    def finish(self) -> None:
        """Take all steps."""
        self.baseline.train()
        while self.step < self.plan.num_steps:
            epoch = self.plan.find_epoch(self.step)
            workers = self.config.workers
            ready = prefetch(
                self.plan.list_steps(epoch, self.step),
                partial(self.build, epoch=epoch),
                workers=workers,
                ahead=2 * workers + 2,
            )
            with closing(cast("Generator[StepBatches]", ready)):
                for made in ready:
                    self.take(made)
        self.baseline.eval()

    def build(self, parts: Parts, *, epoch: int) -> StepBatches:
        """Make the batches of a step; threads may call this side by side."""
        arrays, limit = self.corpus.arrays, MAX_TOKENS[self.device.type]
        pieces = [piece for rows in parts for piece in split_rows(rows, arrays.row_table, self._row_tokens, limit)]
        batches = [self.baseline.make_batch(arrays, rows, seed=self.config.seed, epoch=epoch) for rows in pieces]
        counts = [self.baseline.count_targets(batch) for batch in batches]
        if self.device.type == "cuda":
            batches = [{name: tensor.pin_memory() for name, tensor in batch.items()} for batch in batches]
        return StepBatches(
            batches=batches,
            shares=[count / max(1, sum(counts)) for count in counts],
            num_rows=sum(map(len, pieces)),
            num_tokens=sum(int(self._row_tokens[rows].sum()) for rows in pieces),
        )

    def take(self, made: StepBatches) -> None:
        """Take a step, and say so; a step whose loss or gradient is not finite changes nothing."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        for number, (batch, share) in enumerate(zip(made.batches, made.shares, strict=True)):
            loss += self._learn(batch, share, number)
        norm = nn.utils.clip_grad_norm_(self.baseline.parameters(), self.config.clip_norm)
        finite = torch.isfinite(loss) & torch.isfinite(norm)
        take_step(self.optimizer, scale_rate(self.step, self.plan.num_steps, self.config.warmup_share), finite)
        self.step += 1
        self.baseline.after_step(self.step)
        self.skipped.add(finite)
        self._loss += torch.where(finite, loss, 0.0)
        self._num_losses += 1
        self.throughput.add(made.num_rows, made.num_tokens)
        if self.step % self.config.log_every == 0 or self.step == self.plan.num_steps:
            self._log()
        self._tell()

    def measure_throughput(self) -> dict[str, float]:
        """Return how long the run took, and its rows a second over all of it."""
        return {
            "seconds": self.throughput.seconds,
            "rows_per_second": self.throughput.num_rows / max(self.throughput.seconds, 1e-9),
        }

    def _learn(self, batch: Batch, share: float, number: int) -> Tensor:
        """Add one part's gradients; return its share of the loss, still on the device."""
        torch.manual_seed(int(make_key(self.config.seed, self.step, number)))
        batch = {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}
        with autocast(self.device, self.dtype):
            loss = self.baseline.compute_loss(batch) * share
        torch.autograd.backward(loss)
        return loss.detach()

    def _log(self) -> None:
        """Write a line of the steps since the last one; only here the host waits for the device."""
        skipped, in_a_row = self.skipped.fetch()
        if in_a_row >= self.config.max_bad_steps:
            raise TrainingError(
                f"The loss of the baseline '{self.baseline.name}' was not finite {in_a_row} steps in a row; stopped "
                f"at step {self.step}. Lower the learning rates."
            )
        self.throughput.mark()
        self.latest = {
            "epoch": self.plan.find_epoch(self.step - 1) + 1,
            "loss": float(self._loss) / self._num_losses,
            "skipped": skipped,
            "seconds": self.throughput.seconds,
            "rows_per_second": self.throughput.rows_per_second,
        }
        with writing(self.metrics.folder):
            self.metrics.write("train", self.step, self.latest)
        self._loss.zero_()
        self._num_losses = 0

    def _tell(self) -> None:
        if self.progress is None:
            return
        self.progress(
            StepReport(
                step=self.step,
                num_steps=self.plan.num_steps,
                epoch=self.plan.find_epoch(self.step - 1) + 1,
                rows_per_second=self.throughput.rows_per_second,
                tokens_per_second=self.throughput.tokens_per_second,
                seconds_left=self.throughput.estimate(self.plan.num_steps - self.step),
                metrics=self.latest,
            )
        )


def _check_finished(folder: Path, identity: dict[str, Any]) -> None:
    """Raise unless a folder holds the baseline that is asked for."""
    if not (folder / CONFIG_FILE).is_file():
        raise ConfigError(f"{folder} holds files that are not a baseline's. Give a new or an empty directory.")
    file = folder / RECORD_FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["identity"]
    except (OSError, json.JSONDecodeError, KeyError) as error:
        raise ModelError(
            f"Cannot read {file}: {error}. Remove the folder, and the baseline is trained anew."
        ) from error
    differing = [key for key, entry in identity.items() if found.get(key) != entry]
    if differing:
        raise ConfigError(
            f"{folder} holds a baseline trained otherwise: it differs in {', '.join(differing)}. "
            "Give another directory, or remove this one."
        )
