"""Training a baseline as NAVI is trained: the same batches, the same steps, the same optimiser."""

from __future__ import annotations

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
from navi.files import read_json, write_folder, write_json
from navi.randomness import make_key
from navi.training.checkpoint import writing
from navi.training.config import PretrainConfig
from navi.training.log import MetricsLog, SkippedSteps, StepReport, Throughput
from navi.training.plan import Parts, RunPlan, split_rows
from navi.training.step import autocast, choose_dtype, make_optimizer, scale_rate, take_step
from navi_paper.baselines.base import CONFIG_FILE, Baseline, Batch

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
"""A step of more tokens is taken in parts: bounds memory."""


def train(
    kind: type[Baseline], corpus: Corpus, folder: Path, config: PretrainConfig, progress: Progress | None = None
) -> Path:
    """Train a baseline on a corpus's training rows and return its folder, at once if it is there already.

    Everything is written beside the folder first and renamed when it is done: a folder of that name is always whole.
    The sections of the configuration that are NAVI's own (model, masking, alignment) have no bearing here.
    """
    identity = describe_baseline(kind.name, corpus, config)
    if folder.exists() and any(folder.iterdir()):
        _check_finished(folder, identity)
        return folder
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.random.fork_rng(list(range(torch.cuda.device_count()))):
        torch.manual_seed(make_key(config.training.seed))
        baseline = kind.from_backbone(config.backbone, corpus.tokenizer).to(device)
        with writing(folder), write_folder(folder) as aside:
            run = BaselineTrainer(baseline, corpus, config, aside, progress)
            run.finish()
            baseline.save(aside)
            record = {"identity": identity, "steps": run.step, "skipped": run.skipped.fetch()[0]}
            seconds = run.throughput.seconds
            speed = {"seconds": seconds, "rows_per_second": run.throughput.num_rows / max(seconds, 1e-9)}
            write_json(aside / RECORD_FILE, record | speed)
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
class BaselineStep:
    """The batches of one step."""

    batches: list[Batch]
    """The parts that the step is taken in."""
    shares: list[float]
    """Share of each part in the step's targets, so that their losses add up to the mean over all targets."""
    num_rows: int
    """Rows of the step."""
    num_tokens: int
    """Tokens of the step."""


class BaselineTrainer:
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
        self._losses: list[Tensor] = []
        if self.config.compile:
            for layer in baseline.layers:
                layer.compile(dynamic=True)

    def finish(self) -> None:
        """Take all steps."""
        self.baseline.train()
        while self.step < self.plan.num_steps:
            epoch, workers = self.plan.find_epoch(self.step), self.config.workers
            steps = self.plan.list_steps(epoch, self.step)
            ready = prefetch(steps, partial(self.build, epoch=epoch), workers=workers, ahead=2 * workers + 2)
            with closing(cast("Generator[BaselineStep]", ready)):
                for made in ready:
                    self.take(made)
        self.baseline.eval()

    def build(self, parts: Parts, *, epoch: int) -> BaselineStep:
        """Make the batches of a step; threads may call this side by side."""
        arrays, limit = self.corpus.arrays, MAX_TOKENS[self.device.type]
        pieces = [piece for rows in parts for piece in split_rows(rows, arrays.row_table, self._row_tokens, limit)]
        batches = [self.baseline.make_batch(arrays, rows, seed=self.config.seed, epoch=epoch) for rows in pieces]
        counts = [self.baseline.count_targets(batch) for batch in batches]
        if self.device.type == "cuda":
            batches = [{name: tensor.pin_memory() for name, tensor in batch.items()} for batch in batches]
        return BaselineStep(
            batches=batches,
            shares=[count / max(1, sum(counts)) for count in counts],
            num_rows=sum(map(len, pieces)),
            num_tokens=sum(int(self._row_tokens[rows].sum()) for rows in pieces),
        )

    def take(self, made: BaselineStep) -> None:
        """Take a step and report it; a step whose loss or gradient is not finite changes nothing."""
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
        self._losses.append(torch.where(finite, loss, 0.0))
        self.throughput.add(made.num_rows, made.num_tokens)
        if self.step % self.config.log_every == 0 or self.step == self.plan.num_steps:
            self._log()
        if self.progress is not None:
            self.progress(self._report())

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
            "loss": float(torch.stack(self._losses).mean()),
            "skipped": skipped,
            "seconds": self.throughput.seconds,
            "rows_per_second": self.throughput.rows_per_second,
        }
        self.metrics.write("train", self.step, self.latest)
        self._losses.clear()

    def _report(self) -> StepReport:
        return StepReport(
            step=self.step,
            num_steps=self.plan.num_steps,
            epoch=self.plan.find_epoch(self.step - 1) + 1,
            rows_per_second=self.throughput.rows_per_second,
            tokens_per_second=self.throughput.tokens_per_second,
            seconds_left=self.throughput.estimate(self.plan.num_steps - self.step),
            metrics=self.latest,
        )


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
