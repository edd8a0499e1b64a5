"""The training loop: steps from where a run stands, with validation, checkpoints and trouble looked after."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from navi.backbones import check_vocabulary
from navi.batches import BatchBuilder, SpecialTokens, prefetch
from navi.errors import ConfigError, MissingExtraError, TrainingError, TrainingInterrupted
from navi.model import load_backbone
from navi.randomness import make_key
from navi.training.checkpoint import (
    CHECKPOINTS,
    RunIdentity,
    RunState,
    load_state,
    load_tensors,
    remove_checkpoints,
    save_checkpoint,
    writing,
)
from navi.training.config import PretrainConfig
from navi.training.export import TrainingResult, export_run
from navi.training.log import StepReport, TrainingLog
from navi.training.plan import Parts, RunPlan
from navi.training.step import StepBatches, Stepper, is_out_of_memory, release_memory, scale_rate
from navi.training.validation import Validation
from navi.training.views import StepViews

if TYPE_CHECKING:
    from navi.corpus import Corpus

logger = logging.getLogger(__name__)
Progress = Callable[[StepReport], None]
MEASURED_SHARE, MEASURED_STEPS = 0.05, 3
"""Share of a run's minutes, and steps, at least, after which it is known how many steps these minutes allow."""
MAX_NAMED = 20
"""Rows of a table that a message names, at most."""


class Trainer:
    """Takes a run from one of its states to the end, or to where it is interrupted.

    `find_signal` returns the number of a signal that asks for an end, 0 if none came.
    """

    def __init__(
        self,
        corpus: Corpus,
        out: Path,
        config: PretrainConfig,
        accelerator: Accelerator,
        find_signal: Callable[[], int],
        progress: Progress | None = None,
    ) -> None:
        self.corpus, self.out, self.config, self.accelerator = corpus, out, config, accelerator
        self.find_signal, self.progress = find_signal, progress
        process, num_processes = accelerator.process_index, accelerator.num_processes
        if config.training.minutes is not None and num_processes > 1:
            raise ConfigError(
                "A run of several processes takes epochs or max_steps, not minutes: each measures its own."
            )
        train_rows = corpus.rows_of("train")
        self.plan = RunPlan(corpus.arrays, train_rows, config, process=process, num_processes=num_processes)
        self.special = SpecialTokens.of(corpus.tokenizer)
        check_vocabulary(corpus.tokenizer, config.backbone)
        torch.manual_seed(make_key(config.training.seed))  # for parameters that start cold; steps seed themselves
        model = load_backbone(config.backbone, **config.model.as_settings())
        builder = BatchBuilder(
            corpus.arrays,
            self.special,
            masking=config.masking,
            align=config.alignment.needs_plain,
            random_routing=config.alignment.random_routing,
            seed=config.training.seed,
        )
        learned = max(config.views.weight, config.views.keep_weight) > 0
        views = StepViews(corpus, model, config, accelerator.device) if learned else None
        self.stepper = Stepper(model, builder, config, self.plan.num_steps, accelerator, views)
        self.stepper.prepare_graphs(self.plan.list_steps(0, 0))
        self.validation = Validation(corpus, self.special, config)
        self.identity = RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint, num_processes=num_processes)

    def begin(self, checkpoint: Path | None) -> None:
        """Stand where a checkpoint stood, or at the beginning."""
        self.state = RunState()
        if checkpoint is not None:
            self.state, found = load_state(checkpoint)
            self.identity.check(found, checkpoint)
            load_tensors(checkpoint, self.stepper.model, self.stepper.optimizer)
            self._limit(self.state.num_steps or self.plan.num_steps)
        with writing(self.out):
            self.log = TrainingLog(self.out, self.accelerator, self.state, curves=self.config.training.curves)
        self._saved_at = self.log.throughput.seconds
        self._warm: tuple[int, float] | None = None
        if checkpoint is not None:
            self._report(f"Going on after step {self.state.step} of {self.plan.num_steps}.")

    def finish(self) -> TrainingResult:
        """Take all steps that are left, and write the model directory."""
        try:
            while self.state.step < self.plan.num_steps:
                self._validate()
                self._stop_if_asked()
                self._train_epoch()
            self._validate()
        finally:
            with writing(self.out):
                self.log.metrics.close()
        self.accelerator.wait_for_everyone()
        result = self._make_result()
        if self.accelerator.is_main_process:
            with writing(self.out):
                self.log.draw()
                export_run(self.stepper.model, self.special, self.corpus, result)
            remove_checkpoints(self.out)
        self.accelerator.wait_for_everyone()
        return result

    def _train_epoch(self) -> None:
        """Take the steps that are left of the present epoch, or those before memory runs out."""
        epoch, workers = self.plan.find_epoch(self.state.step), self.config.training.workers
        steps, max_tokens = self.plan.list_steps(epoch, self.state.step), self.state.max_tokens

        def build(numbered: tuple[int, Parts]) -> StepBatches:
            step, parts = numbered
            return self.stepper.build(parts, epoch, max_tokens, step)

        ready = prefetch(list(enumerate(steps, self.state.step)), build, workers=workers, ahead=2 * workers + 2)
        with closing(cast("Generator[StepBatches]", ready)):
            for made in ready:
                if not self._take_step(made) or self.state.step == self.plan.num_steps:
                    return

    def _take_step(self, made: StepBatches) -> bool:
        """Take a step and do what is due after it; false if memory ran out and it is to be taken in smaller parts."""
        sums = self._accumulate(made)
        if sums is None:
            return False
        sums, finite = self.stepper.update(sums, self.state.step)
        self.state.step += 1
        self.log.add(made, sums, finite)
        self._limit_if_measured()
        self._log_if_due(made)
        self._report()
        if self.state.step not in self.plan.boundaries and self._is_checkpoint_due():
            self._save()
        self._stop_if_asked()
        return True

    def _limit_if_measured(self) -> None:
        """Once a run of so many minutes has shown how fast it is, set how many steps it takes."""
        minutes, seconds, step = self.config.training.minutes, self.log.throughput.seconds, self.state.step
        if minutes is None or self.state.num_steps is not None:
            return
        self._warm = self._warm or (step, seconds)  # the first step is slower than all others
        taken, spent = step - self._warm[0], seconds - self._warm[1]
        if taken < MEASURED_STEPS or seconds < MEASURED_SHARE * 60 * minutes:
            return
        left = max(1, int((60 * minutes - seconds) * taken / spent))
        self._limit(min(self.plan.num_steps, step + left))
        self.state.num_steps = self.plan.num_steps
        seen, rows = self.plan.num_steps * self.config.sampler.rows_per_batch, len(self.corpus.rows_of("train"))
        times = "once" if seen <= rows else f"{seen / rows:.1f} times"
        self._report(
            f"{minutes:g} minutes allow {self.plan.num_steps} steps: about {min(seen, rows)} of {rows} rows, {times}."
        )

    def _limit(self, num_steps: int) -> None:
        """End the run after so many steps."""
        self.plan.num_steps = self.stepper.num_steps = num_steps

    def _accumulate(self, made: StepBatches) -> Tensor | None:
        """Put the gradients of a step in place; None if memory ran out, the limit on its parts then halved."""
        try:
            return self.stepper.accumulate(made, self.state.step)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._check_halvable(made, error)
        self.stepper.forget_graphs()
        release_memory()
        self.state.max_tokens = max(made.part_tokens) // 2
        self._report(
            f"Memory ran out at step {self.state.step + 1}: from here on a step is taken in parts of at most "
            f"{self.state.max_tokens} tokens; its rows stay, segments are compared within a part."
        )
        return None

    def _check_halvable(self, made: StepBatches, error: RuntimeError) -> None:
        """Raise if a step that memory ran out in cannot be taken in smaller parts."""
        num_tokens, rows = max(zip(made.part_tokens, made.parts, strict=True), key=lambda part: part[0])
        if self.accelerator.num_processes > 1:
            raise TrainingError(
                f"Memory ran out at step {self.state.step + 1}, and several processes cannot change their parts on the "
                "way. Start again with smaller batches (rows_per_batch or tokens_per_batch)."
            ) from error
        if len(rows) == 1:
            raise TrainingError(
                f"Memory ran out at step {self.state.step + 1} for a single row of {num_tokens} tokens. "
                "Prepare the corpus with fewer max_tokens, or take a smaller backbone."
            ) from error

    def _log_if_due(self, made: StepBatches) -> None:
        step, config = self.state.step, self.config.training
        due = step % config.log_every == 0 or step in self.plan.boundaries
        if due or self.stepper.device.type == "cpu":
            self._check_finite(made)
        if due:
            scale = scale_rate(step - 1, self.plan.num_steps, config.warmup_share)
            entries = {"epoch": self.plan.find_epoch(step - 1) + 1, "learning_rate": config.learning_rate * scale}
            with writing(self.out):
                self.log.write_train(step, entries)

    def _check_finite(self, made: StepBatches) -> None:
        """Raise if too many steps in a row were skipped, and name the rows of the last."""
        _, in_a_row = self.log.skipped.fetch()
        if in_a_row >= self.config.training.max_bad_steps:
            raise TrainingError(
                f"The loss was not finite {in_a_row} steps in a row; stopped at step {self.state.step}, the weights as "
                f"before them. The last batch: {name_rows(self.corpus, made)}. Look for damaged values there, or lower "
                "the learning rates."
            )

    def _validate(self) -> None:
        """Validate where the run stands, if that is due and not yet done; then save."""
        state = self.state
        if state.validations == len(self.plan.boundaries) or self.plan.boundaries[state.validations] != state.step:
            return
        measures = self.validation(self.stepper)
        if measures and self.accelerator.is_main_process:
            if state.validations == 0:
                measures |= self.validation.measure_majority()
            samples = self.validation.describe_samples(self.stepper)
            with writing(self.out):
                self.log.write_validation(state.step, {"epoch": state.validations, **measures}, samples)
        state.validations += 1
        self._save()
        self.log.throughput.restart()

    def _is_checkpoint_due(self) -> bool:
        config = self.config.training
        if config.checkpoint_steps is not None and self.state.step % config.checkpoint_steps == 0:
            return True
        waited = self.log.throughput.seconds - self._saved_at
        return config.checkpoint_minutes is not None and waited >= 60 * config.checkpoint_minutes

    def _save(self) -> None:
        """Save a checkpoint; only the main process writes."""
        self._saved_at = self.log.throughput.seconds
        if self.accelerator.is_main_process:
            stepper, keep = self.stepper, self.config.training.keep_checkpoints
            with writing(self.out):
                self.log.save(self.state)
                save_checkpoint(self.out, stepper.model, stepper.optimizer, self.state, self.identity, keep=keep)

    def _stop_if_asked(self) -> None:
        """Save and leave, if a signal asked for it; processes agree on it where they meet for a line of metrics."""
        number = self.find_signal()
        if self.accelerator.num_processes > 1:
            if self.state.step % self.config.training.log_every != 0:
                return
            asked = torch.tensor(number, device=self.stepper.device)
            number = int(self.accelerator.gather(asked).max())
        if number == 0:
            return
        self._save()
        raise TrainingInterrupted(
            f"Stopped by {Signals(number).name} after step {self.state.step} of {self.plan.num_steps}; a checkpoint is "
            f"saved in {self.out / CHECKPOINTS}. Go on with resume=True (--resume).",
            number,
        )

    def _report(self, note: str | None = None) -> None:
        """Report where the run stands; a note is kept for the record."""
        if note is not None:
            self.state.notes.append(note)
            logger.info(note)
        if self.progress is None or not self.accelerator.is_main_process:
            return
        throughput, step = self.log.throughput, self.state.step
        self.progress(
            StepReport(
                step=step,
                num_steps=self.plan.num_steps,
                epoch=min(self.plan.find_epoch(max(step - 1, 0)) + 1, self.config.training.epochs),
                rows_per_second=throughput.rows_per_second,
                tokens_per_second=throughput.tokens_per_second,
                seconds_left=throughput.estimate(self.plan.num_steps - step),
                metrics=self.log.latest,
                note=note,
            )
        )

    def _make_result(self) -> TrainingResult:
        notes = list(self.state.notes)
        if not self.log.can_show_all():
            notes.append(str(MissingExtraError("Learning curves (curves.png and TensorBoard events)", "curves")))
        return TrainingResult(
            path=self.out,
            config=self.config.to_dict(),
            corpus={
                "fingerprint": self.corpus.fingerprint,
                "tables": len(self.corpus.tables),
                "rows": self.corpus.arrays.num_rows,
                "train_rows": len(self.corpus.rows_of("train")),
                "settings": self.corpus.config.as_settings(),
            },
            num_steps=self.state.step,
            skipped=self.log.skipped.fetch()[0],
            seconds=self.log.throughput.seconds,
            device=f"{self.stepper.device.type}, {str(self.stepper.dtype).removeprefix('torch.')}",
            train=(self.log.metrics.read("train") or [{}])[-1],
            validation=self.log.metrics.read("validation"),
            notes=notes,
        )


def name_rows(corpus: Corpus, made: StepBatches) -> str:
    """Name the rows of a step by their tables and their numbers in them."""
    rows = np.sort(np.concatenate(made.parts))
    table = corpus.arrays.row_table[rows]
    named = []
    for number in np.unique(table):
        members = corpus.row_number[rows[table == number]]
        listed = ", ".join(map(str, members[:MAX_NAMED].tolist()))
        more = f" and {len(members) - MAX_NAMED} more" if len(members) > MAX_NAMED else ""
        named.append(f"{corpus.tables[number]} rows {listed}{more}")
    return "; ".join(named)
