"""One sitting of a run: steps from where it stands, with validation, checkpoints and trouble looked after."""

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
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import BatchBuilder, prefetch
from navi.errors import MissingExtraError, TrainingError
from navi.model import load_backbone
from navi.training.affinity import relate_columns
from navi.training.checkpoint import FOLDER, RunState, check_identity, load_state, load_tensors, save_checkpoint
from navi.training.config import PretrainConfig
from navi.training.curves import can_draw
from navi.training.export import export_run
from navi.training.folder import drop_checkpoints, writing
from navi.training.identity import describe_run
from navi.training.interruption import Interruption, TrainingInterrupted
from navi.training.logbook import Logbook
from navi.training.memory import is_out_of_memory, release_memory
from navi.training.plan import RunPlan
from navi.training.result import StepReport, TrainingResult
from navi.training.step import StepBatches, Stepper, seed_everything
from navi.training.trouble import explain_bad_steps, explain_lack_of_memory
from navi.training.validation import Validation
from navi.training.vocabulary import check_vocabulary, find_special_tokens

if TYPE_CHECKING:
    from navi.corpus import Corpus

logger = logging.getLogger(__name__)
Progress = Callable[[StepReport], None]


class Sitting:
    """Takes a run from one of its states to the end, or to where it is interrupted."""

    def __init__(
        self,
        corpus: Corpus,
        out: Path,
        config: PretrainConfig,
        accelerator: Accelerator,
        interruption: Interruption,
        progress: Progress | None,
    ) -> None:
        self.corpus, self.out, self.config = corpus, out, config
        self.interruption, self.progress = interruption, progress
        self.accelerator = accelerator
        self.plan = RunPlan(
            corpus.arrays,
            corpus.rows_of("train"),
            config.sampler,
            config.training,
            process=self.accelerator.process_index,
            num_processes=self.accelerator.num_processes,
        )
        self.special = find_special_tokens(corpus.tokenizer)
        check_vocabulary(corpus.tokenizer, config.backbone)
        seed_everything(config.training.seed)
        model = load_backbone(config.backbone, **config.model.as_settings())
        related = relate_columns(corpus, config.training.seed) if config.alignment.column_weight > 0 else None
        self.stepper = Stepper(
            model,
            self._make_builder(related.columns if related else None),
            config,
            self.plan.num_steps,
            self.accelerator,
            torch.from_numpy(related.affinity) if related else None,
        )
        self.stepper.foresee(self.plan.list_steps(0, 0))
        self.validation = Validation(corpus, self.special, config)
        self.identity = describe_run(config, corpus.fingerprint, self.accelerator.num_processes)
        self._boundaries = self.plan.list_boundaries()

    def begin(self, checkpoint: Path | None) -> None:
        """Stand where a checkpoint stood, or at the beginning."""
        self.state = RunState()
        if checkpoint is not None:
            self.state, found = load_state(checkpoint)
            check_identity(found, self.identity, checkpoint)
            load_tensors(checkpoint, self.stepper.model, self.stepper.optimizer)
        with writing(self.out):
            self.logbook = Logbook(self.out, self.accelerator, self.state, curves=self.config.training.curves)
        self._saved_at = self.logbook.pace.seconds
        if checkpoint is not None:
            self._tell(f"Going on after step {self.state.step} of {self.plan.num_steps}.")

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
                self.logbook.metrics.close()
        self.accelerator.wait_for_everyone()
        result = self._make_result()
        if self.accelerator.is_main_process:
            with writing(self.out):
                self.logbook.draw()
                export_run(self.stepper.model, self.corpus, result)
            drop_checkpoints(self.out)
        self.accelerator.wait_for_everyone()
        return result

    def _train_epoch(self) -> None:
        """Take the steps that are left of the present epoch, or those before memory runs out."""
        epoch = self.plan.find_epoch(self.state.step)
        steps = self.plan.list_steps(epoch, self.state.step)
        max_tokens = self.state.max_tokens
        ready = prefetch(
            steps,
            lambda parts: self.stepper.build(parts, epoch, max_tokens),
            workers=self.config.training.workers,
            ahead=2 * self.config.training.workers + 2,
        )
        with closing(cast("Generator[StepBatches]", ready)):
            for made in ready:
                if not self._take_step(made):
                    return

    def _take_step(self, made: StepBatches) -> bool:
        """Take a step and do what is due after it; false if memory ran out and it is to be taken in smaller parts."""
        sums = self._accumulate(made)
        if sums is None:
            return False
        outcome = self.stepper.update(sums, self.state.step)
        self.state.step += 1
        self.logbook.add(made, outcome)
        self._log_if_due(made)
        self._tell()
        if self.state.step not in self._boundaries and self._is_checkpoint_due():
            self._save()
        self._stop_if_asked()
        return True

    def _accumulate(self, made: StepBatches) -> Tensor | None:
        """Put the gradients of a step in place; None if memory ran out, the limit on its parts then halved."""
        try:
            return self.stepper.accumulate(made, self.state.step)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            problem = explain_lack_of_memory(made, self.state.step, self.accelerator.num_processes)
            if problem is not None:
                raise TrainingError(problem) from error
        self.stepper.forget_recordings()
        release_memory()
        self.state.max_tokens = max(made.part_tokens) // 2
        self._tell(
            f"Memory ran out at step {self.state.step + 1}: from here on a step is taken in parts of at most "
            f"{self.state.max_tokens} tokens; its rows stay, segments and columns are compared within a part."
        )
        return None

    def _log_if_due(self, made: StepBatches) -> None:
        step, every = self.state.step, self.config.training.log_every
        due = step % every == 0 or step in self._boundaries
        if due or self.stepper.device.type == "cpu":
            bad_run = self.logbook.count_bad_steps()
            if bad_run >= self.config.training.max_bad_steps:
                raise TrainingError(explain_bad_steps(self.corpus, made, step, bad_run))
        if due:
            scale = self.stepper.scale_rate(step - 1)
            rates = {"learning_rate": self.config.training.learning_rate * scale}
            with writing(self.out):
                self.logbook.write_train(step, {"epoch": self.plan.find_epoch(step - 1) + 1, **rates})

    def _validate(self) -> None:
        """Validate where the run stands, if that is due and not yet done; then save."""
        state = self.state
        if state.validations == len(self._boundaries) or self._boundaries[state.validations] != state.step:
            return
        measures = self.validation(self.stepper)
        if measures and self.accelerator.is_main_process:
            if state.validations == 0:
                measures |= self.validation.measure_guesses()
            samples = self.validation.describe_samples(self.stepper)
            with writing(self.out):
                self.logbook.write_validation(state.step, {"epoch": state.validations, **measures}, samples)
        state.validations += 1
        self._save()
        self.logbook.pace.restart()

    def _is_checkpoint_due(self) -> bool:
        config = self.config.training
        if config.checkpoint_steps is not None and self.state.step % config.checkpoint_steps == 0:
            return True
        waited = self.logbook.pace.seconds - self._saved_at
        return config.checkpoint_minutes is not None and waited >= 60 * config.checkpoint_minutes

    def _save(self) -> None:
        """Save a checkpoint; only the main process writes."""
        self._saved_at = self.logbook.pace.seconds
        if self.accelerator.is_main_process:
            with writing(self.out):
                self.logbook.save(self.state)
            save_checkpoint(
                self.out / FOLDER,
                self.stepper.model,
                self.stepper.optimizer,
                self.state,
                self.identity,
                keep=self.config.training.keep_checkpoints,
            )

    def _stop_if_asked(self) -> None:
        """Save and leave, if a signal asked for it; processes agree on it where they meet for a line of metrics."""
        number = self.interruption.number or 0
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
            f"saved in {self.out / FOLDER}. Go on with resume=True (--resume).",
            number,
        )

    def _tell(self, note: str | None = None) -> None:
        """Report where the run stands; a note is kept for the record."""
        if note is not None:
            self.state.notes.append(note)
            logger.info(note)
        if self.progress is None or not self.accelerator.is_main_process:
            return
        pace, state = self.logbook.pace, self.state
        self.progress(
            StepReport(
                step=state.step,
                num_steps=self.plan.num_steps,
                epoch=min(self.plan.find_epoch(max(state.step - 1, 0)) + 1, self.config.training.epochs),
                num_rows=pace.num_rows,
                num_tokens=pace.num_tokens,
                rows_per_second=pace.rows_per_second,
                tokens_per_second=pace.tokens_per_second,
                seconds_left=pace.estimate(self.plan.num_steps - state.step),
                metrics=self.logbook.latest,
                note=note,
            )
        )

    def _make_result(self) -> TrainingResult:
        metrics = self.logbook.metrics
        arrays = self.corpus.arrays
        return TrainingResult(
            path=self.out,
            config=self.config.to_dict(),
            corpus={
                "fingerprint": self.corpus.fingerprint,
                "tables": len(self.corpus.tables),
                "rows": arrays.num_rows,
                "train_rows": len(self.corpus.rows_of("train")),
                "settings": self.corpus.config.as_settings(),
            },
            num_steps=self.state.step,
            skipped=self.logbook.count_skipped(),
            seconds=self.logbook.pace.seconds,
            device=f"{self.stepper.device.type}, {str(self.stepper.dtype).removeprefix('torch.')}",
            train=(metrics.read("train") or [{}])[-1],
            validation=metrics.read("validation"),
            notes=[*self.state.notes, *self._note_extras()],
        )

    def _note_extras(self) -> list[str]:
        if self.config.training.curves and not (can_draw() and self.logbook.metrics.events):
            return [str(MissingExtraError("Learning curves (curves.png and TensorBoard events)", "curves"))]
        return []

    def _make_builder(self, related: NDArray[np.int64] | None) -> BatchBuilder:
        config = self.config
        return BatchBuilder(
            self.corpus.arrays,
            self.special,
            masking=config.masking,
            align=config.alignment.needs_plain,
            random_routing=config.alignment.random_routing,
            related=related,
            seed=config.training.seed,
        )
