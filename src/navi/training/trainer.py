"""The training loop: which rows each step takes, steps from where a run stands, validation, checkpoints and trouble."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np
import torch
from torch import Tensor

from navi.backbones import check_vocabulary
from navi.batches import BatchBuilder, SpecialTokens, plan_epoch, prefetch
from navi.corpus.arrays import SegmentArrays
from navi.errors import TrainingError, TrainingInterrupted
from navi.files import put_folder
from navi.model import load_backbone
from navi.randomness import make_key
from navi.storage import is_remote, show_address
from navi.training.checkpoint import (
    CHECKPOINTS,
    RECORD_FILE,
    STATE,
    RunIdentity,
    RunState,
    load_state,
    load_tensors,
    remove_checkpoints,
    save_checkpoint,
    writing,
)
from navi.training.config import MAX_EPOCHS, PretrainConfig
from navi.training.export import TrainingResult, export_run
from navi.training.log import StepReport, TrainingLog
from navi.training.processes import Processes, Stopped, StopSignals
from navi.training.step import Ints, StepBatches, Stepper, StepViews, is_out_of_memory, release_memory, scale_rate
from navi.training.validation import Validation

if TYPE_CHECKING:
    from navi.corpus import Corpus

logger = logging.getLogger(__name__)
Progress = Callable[[StepReport], None]
MEASURED_SHARE = 0.05
"""Share of a run's minutes after which it is measured, each time again, how many steps these allow."""
MAX_NAMED = 20
"""Rows of a table that a message names, at most."""


class RunPlan:
    """Which rows each step of a run takes, epoch after epoch: a pure function of the seed and the step."""

    def __init__(self, arrays: SegmentArrays, rows: Ints, config: PretrainConfig) -> None:
        if len(rows) == 0:
            raise TrainingError("There are no training rows. Prepare a corpus with more rows.")
        training = config.training

        @lru_cache(maxsize=1)
        def plan(epoch: int) -> list[Ints]:
            return plan_epoch(rows, arrays.row_table, config.sampler, seed=training.seed, epoch=epoch)

        self._plan = plan
        self.epoch_steps = len(plan(0))
        """Steps of an epoch."""
        whole = self.epoch_steps * (training.epochs or MAX_EPOCHS)
        self.most_steps = min(whole, training.max_steps or whole)
        """Steps that epochs and `max_steps` allow."""
        self.num_steps = self.most_steps
        """Steps of the run, once fewer are known to be right."""

    @property
    def boundaries(self) -> list[int]:
        """The steps done when each validation is due: at the start, after each epoch, at the end."""
        return [*range(0, self.num_steps, self.epoch_steps), self.num_steps]

    def find_epoch(self, step: int) -> int:
        """Return the epoch, from 0, that a step, from 0, belongs to."""
        return step // self.epoch_steps

    def list_steps(self, epoch: int, first: int) -> list[Ints]:
        """Return the rows of each step of an epoch, from step `first` of the run up to its last."""
        begin = epoch * self.epoch_steps
        return self._plan(epoch)[first - begin : self.num_steps - begin]


class Trainer:
    """Takes a run from one of its states to the end, or to where it is interrupted.

    One process stops where a signal reaches it, and the step that it was taking is taken again; several agree on it
    after a step.
    """

    def __init__(
        self,
        corpus: Corpus,
        out: Path,
        config: PretrainConfig,
        processes: Processes,
        signals: StopSignals | None = None,
        progress: Progress | None = None,
        address: Path | None = None,
    ) -> None:
        self.corpus, self.out, self.config, self.processes = corpus, out, config, processes
        self.address = address or out
        """Where the run belongs; in an object store it is put up whenever something is saved."""
        self.signals, self.progress = signals or StopSignals(), progress
        train_rows = corpus.rows_of("train")
        self.plan = RunPlan(corpus.arrays, train_rows, config)
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
        views = StepViews(corpus, model, config, processes.device) if learned else None
        self.stepper = Stepper(model, builder, config, processes, views)
        self.stepper.prepare_graphs(self.plan.list_steps(0, 0))
        self.validation = Validation(corpus, self.special, config)
        self.identity = RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint)

    def begin(self, checkpoint: Path | None, *, is_last: bool = False) -> None:
        """Stand where a checkpoint stood, or at the beginning; with `is_last` there is no further step."""
        self.state = RunState()
        if checkpoint is not None:
            self.state, found = load_state(checkpoint)
            self.identity.check(found, checkpoint)
            load_tensors(checkpoint, self.stepper.model, self.stepper.optimizer)
            self.plan.most_steps = self.state.most_steps or self.plan.most_steps
            self.plan.num_steps = min(self.state.num_steps or self.plan.most_steps, self.plan.most_steps)
        with writing(self.out):
            self.log = TrainingLog(self.out, self.processes, self.state)
        self._saved_at = self.log.throughput.seconds
        self._warm: tuple[int, float] | None = None
        self._measured_at = 0.0
        if is_last:
            self._report(f"Taken as it was after step {self.state.step} of {self.plan.num_steps}.")
            self.plan.num_steps = self.state.step
        elif checkpoint is not None:
            self._report(f"Going on after step {self.state.step} of {self.plan.num_steps}.")

    def finish(self) -> TrainingResult:
        """Take all steps that are left, and write the model directory."""
        try:
            self._train()
            result = self._make_result()
            if self.processes.is_main:
                with writing(self.out):
                    export_run(self.stepper.model, self.special, self.corpus, result)
        except Stopped as stop:
            self._leave(stop.number)
        with self.signals.hold():
            if self.processes.is_main:
                remove_checkpoints(self.out)
                self._upload()
            self.processes.wait()
        return result

    def _train(self) -> None:
        """Take all steps that are left."""
        while self.state.step < self.plan.num_steps:
            self._validate()
            self._stop_if_asked()
            self._train_epoch()
        self._validate()
        self.processes.wait()

    def _train_epoch(self) -> None:
        """Take the steps that are left of the present epoch, or those before memory runs out."""
        epoch, workers = self.plan.find_epoch(self.state.step), self.config.training.workers
        steps, max_tokens = self.plan.list_steps(epoch, self.state.step), self.state.max_tokens

        def build(numbered: tuple[int, Ints]) -> StepBatches:
            step, rows = numbered
            return self.stepper.build(rows, epoch, max_tokens, step)

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
        with self.signals.hold():
            sums, finite = self.stepper.update(sums, self._scale_rate())
            self.state.step += 1
            self.log.add(made, sums, finite)
            self._limit_if_measured()
            self._log_if_due(made)
            self._report()
            if self._is_checkpoint_due():
                self._save()
        self._stop_if_asked()
        return True

    def _limit_if_measured(self) -> None:
        """Set how many steps the minutes of a run allow: once it has shown how fast it is, and now and then again."""
        minutes, seconds, step = self.config.training.minutes, self.log.throughput.seconds, self.state.step
        if minutes is None or not (self.processes.is_main and self._may_agree()):
            return
        if self._warm is None:  # the first step is slower than all others
            self._warm, self._measured_at = (step, seconds), seconds
        if seconds < self._measured_at + MEASURED_SHARE * 60 * minutes:
            return
        self._measured_at = seconds
        taken, spent = step - self._warm[0], seconds - self._warm[1]
        left = max(0, int((60 * minutes - seconds) * taken / spent))
        self.plan.num_steps = min(self.plan.most_steps, step + left)
        is_new, self.state.num_steps = self.state.num_steps is None, self.plan.num_steps
        if is_new:
            seen, rows = self.plan.num_steps * self.config.sampler.rows_per_batch, len(self.corpus.rows_of("train"))
            times = "once" if seen <= rows else f"{seen / rows:.1f} times"
            self._report(f"{minutes:g} minutes will see about {min(seen, rows):,} of {rows:,} rows, {times}.")

    def _scale_rate(self) -> float:
        """Return the share of the highest learning rates at which the next step is taken."""
        return scale_rate(self.state.step, self.plan.num_steps, self.config.training.warmup_share)

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
        if self.processes.count > 1:
            raise TrainingError(
                f"Memory ran out at step {self.state.step + 1}, and several processes cannot change their parts on the "
                "way. Start again with smaller batches (rows_per_batch)."
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
        """Validate where the run stands, if that is due and not yet done."""
        state = self.state
        if state.validations == len(self.plan.boundaries) or self.plan.boundaries[state.validations] != state.step:
            return
        measures = self.validation(self.stepper)
        if measures and state.validations == 0 and self.processes.is_main:
            measures |= self.validation.measure_majority()
        with self.signals.hold():
            if measures and self.processes.is_main:
                with writing(self.out):
                    self.log.metrics.write("validation", state.step, {"epoch": state.validations, **measures})
            if state.validations > 0:
                self._limit_if_not_lower(measures.get("masked_loss"))
            state.validations += 1
            self.log.throughput.restart()

    def _limit_if_not_lower(self, loss: float | None) -> None:
        """Take one more epoch, in which the rate falls to 0, if the last one has not lowered the validation loss."""
        state, plan = self.state, self.plan
        if self.config.training.epochs is not None or loss is None:
            return
        if state.lowest is not None and loss >= state.lowest and state.step < plan.num_steps:
            plan.most_steps = state.most_steps = min(plan.most_steps, state.step + plan.epoch_steps)
            plan.num_steps = min(plan.num_steps, plan.most_steps)
            epoch = plan.find_epoch(state.step - 1) + 1
            self._report(f"Epoch {epoch} has not lowered the validation loss: one more, at a falling rate.")
        state.lowest = min(loss, state.lowest or loss)

    def _is_checkpoint_due(self) -> bool:
        config = self.config.training
        if config.checkpoint_steps is not None and self.state.step % config.checkpoint_steps == 0:
            return True
        waited = self.log.throughput.seconds - self._saved_at
        return config.checkpoint_minutes is not None and waited >= 60 * config.checkpoint_minutes

    def _save(self) -> None:
        """Save a checkpoint; only the main process writes."""
        self._saved_at = self.log.throughput.seconds
        if self.processes.is_main:
            stepper, keep = self.stepper, self.config.training.keep_checkpoints
            with writing(self.out):
                self.log.save(self.state)
                save_checkpoint(self.out, stepper.model, stepper.optimizer, self.state, self.identity, keep=keep)
            self._upload()

    def _upload(self) -> None:
        if is_remote(self.address):
            put_folder(self.out, self.address, (STATE, RECORD_FILE), fixed=CHECKPOINTS)

    def _may_agree(self) -> bool:
        """Return whether processes may wait for each other here: a GPU only where its sums are fetched anyway."""
        on_cpu = self.stepper.device.type == "cpu"
        return self.processes.count == 1 or on_cpu or self.state.step % self.config.training.log_every == 0

    def _stop_if_asked(self) -> None:
        """Stop if a signal asked for it; several processes agree on that, and on how many steps there are."""
        if self.processes.count > 1 and self._may_agree():
            number, num_steps = self.processes.max(
                self.signals.came, self.plan.num_steps if self.processes.is_main else 0
            )
            self.plan.num_steps = num_steps
            if number:
                raise Stopped(number)
        self.signals.check()

    def _leave(self, number: int) -> NoReturn:
        """Save where the run stands, and say how it goes on."""
        with self.signals.hold():
            self._save()
            self.processes.wait()
        used = " To use it as it is: --finish." if 0 < self.state.step < self.plan.num_steps else ""
        raise TrainingInterrupted(
            f"Stopped by {Signals(number).name} after step {self.state.step} of {self.plan.num_steps}; a checkpoint is "
            f"saved in {show_address(self.address / CHECKPOINTS)}. To go on: the same with resume=True (--resume)."
            f"{used}",
            number,
        )

    def _report(self, note: str | None = None) -> None:
        """Report where the run stands; a note is kept for the record."""
        if note is not None:
            self.state.notes.append(note)
            logger.info(note)
        if self.progress is None or not self.processes.is_main:
            return
        throughput, step, minutes = self.log.throughput, self.state.step, self.config.training.minutes
        left = throughput.estimate(self.plan.num_steps - step)
        if minutes is not None and self.state.num_steps is None:  # as many steps as there are rows, and not as minutes
            left = max(0.0, 60 * minutes - throughput.seconds)
        self.progress(
            StepReport(
                step=step,
                num_steps=self.plan.num_steps,
                epoch=self.plan.find_epoch(max(step - 1, 0)) + 1,
                rows_per_second=throughput.rows_per_second,
                tokens_per_second=throughput.tokens_per_second,
                seconds_left=left,
                metrics=self.log.latest,
                note=note,
            )
        )

    def _make_result(self) -> TrainingResult:
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
            notes=list(self.state.notes),
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
