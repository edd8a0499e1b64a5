"""`pretrain`: from a corpus to a model directory, step by step, by a run that can stop and go on anywhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from signal import Signals
from typing import NoReturn, cast

import numpy as np
import torch
from torch import Tensor

from navi.backbones import check_vocabulary
from navi.batches import BatchBuilder, SpecialTokens, plan_epoch, prefetch
from navi.corpus import Corpus
from navi.corpus.arrays import SegmentArrays
from navi.errors import ConfigError, TrainingError, TrainingInterrupted
from navi.files import is_there, local_folder, put_folder
from navi.model import load_backbone
from navi.randomness import make_key
from navi.storage import is_remote, show_address
from navi.training.checkpoint import (
    CHECKPOINTS,
    RECORD_FILE,
    STATE,
    RunIdentity,
    RunState,
    list_checkpoints,
    load_checkpoint,
    open_folder,
    remove_checkpoints,
    save_checkpoint,
    writing,
)
from navi.training.config import MAX_EPOCHS, PretrainConfig, make_preset
from navi.training.export import TrainingResult, export_run
from navi.training.metrics import MAX_SKIPPED, StepReport, TrainingLog, Validation
from navi.training.processes import Processes, Stopped, StopSignals, stop_on_signals
from navi.training.step import (
    Ints,
    StepBatches,
    Stepper,
    StepViews,
    is_out_of_memory,
    keep_freed_memory,
    release_memory,
    scale_rate,
)

logger = logging.getLogger(__name__)
Progress = Callable[[StepReport], None]
MEASURED_SHARE, MEASURED_SECONDS = 0.05, 10.0
"""Share of a run's minutes after which it is measured, each time again, how many steps these allow; and seconds until
the first time, at most."""
MAX_NAMED = 20
"""Rows of a table that a message names, at most."""


def pretrain(
    corpus: Corpus | str | Path,
    out: str | Path,
    config: PretrainConfig | None = None,
    *,
    resume: bool = False,
    finish: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainingResult:
    """Learn a NAVI encoder from a corpus; return what the model directory `out` then records.

    With `resume` the run in `out` goes on from its newest complete checkpoint, exactly as if it had never stopped, and
    a finished one is left as it is; without a checkpoint it begins. With `finish` that checkpoint becomes the model,
    and nothing more is learned. SIGTERM and Ctrl-C save a checkpoint and raise `TrainingInterrupted`. Without a
    `config`, the preset is `laptop` on a CPU, else `default`. The global random state is put back afterwards. Where
    `out` is an address in an object store, the run is kept in a scratch folder, and put up with each checkpoint.
    """
    address, opened, processes, goes_on = Path(out), open_corpus(corpus), Processes.join(), resume or finish
    if is_remote(address) and not (goes_on or overwrite) and is_there(address):
        raise ConfigError(f"{show_address(address)} holds files. Resume it, overwrite it, or give another directory.")
    folder = local_folder(address, make=True)
    settings = config or make_preset(choose_preset(processes.device))
    with ExitStack() as stack:
        stack.callback(processes.leave)
        if processes.is_main:
            stack.enter_context(open_folder(folder, resume=goes_on, overwrite=overwrite))
        processes.wait()
        checkpoints = list_checkpoints(folder) if goes_on else []
        if goes_on and not checkpoints and (folder / RECORD_FILE).is_file():
            result, identity = TrainingResult.load(folder), RunIdentity.of(settings, opened)
            recorded = PretrainConfig.from_dict(result.config).to_dict()
            identity.check(RunIdentity(config=recorded, corpus=result.corpus["fingerprint"]), folder)
            return result
        if finish and not checkpoints:
            raise ConfigError(f"{folder} has no checkpoint to finish. Train it first (--resume begins or goes on).")
        stack.enter_context(torch.random.fork_rng(list(range(torch.cuda.device_count()))))
        stack.enter_context(keep_freed_memory(processes.device))
        signals = stack.enter_context(stop_on_signals())
        if processes.count > 1:  # several stop where all of them agree
            stack.enter_context(signals.hold())
        trainer = Trainer(opened, folder, settings, processes, signals, progress, address)
        trainer.begin(checkpoints[-1] if checkpoints else None, is_last=finish)
        return replace(trainer.finish(), path=address)


def choose_preset(device: torch.device) -> str:
    """Return the preset of a machine: a CPU has minutes, not epochs."""
    return "laptop" if device.type == "cpu" else "default"


def open_corpus(corpus: Corpus | str | Path) -> Corpus:
    """Return a corpus given as it is, or as its directory."""
    if not isinstance(corpus, str | Path):
        return corpus
    return Corpus.open(corpus, verify=True)


class RunPlan:
    """Which rows each step of a run takes, epoch after epoch: a pure function of the seed and the step."""

    def __init__(self, arrays: SegmentArrays, rows: Ints, config: PretrainConfig) -> None:
        if len(rows) == 0:
            raise TrainingError("There are no training rows. Prepare a corpus with more rows.")
        training = config.training
        plan = partial(plan_epoch, rows, arrays.row_table, config.sampler, seed=training.seed)
        self._plan = lru_cache(maxsize=1)(plan)
        self.epoch_steps = len(self._plan(epoch=0))
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
        return self._plan(epoch=epoch)[first - begin : self.num_steps - begin]


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
        self.plan = RunPlan(corpus.arrays, corpus.rows_of("train"), config)
        self.special = SpecialTokens.of(corpus.tokenizer)
        check_vocabulary(corpus.tokenizer, config.backbone)
        torch.manual_seed(make_key(config.training.seed))  # for parameters that start cold; steps seed themselves
        model = load_backbone(config.backbone, **config.model.as_settings())
        builder = BatchBuilder(
            corpus.arrays,
            self.special,
            masking=config.masking,
            align=max(config.alignment.weight, config.alignment.row_weight) > 0,
            random_routing=config.alignment.random_routing,
            seed=config.training.seed,
        )
        learned = max(config.views.weight, config.views.keep_weight) > 0
        views = StepViews(corpus, model, config, processes.device) if learned else None
        self.stepper = Stepper(model, builder, config, processes, views)
        self.stepper.prepare_graphs(self.plan.list_steps(0, 0))
        self.validation = Validation(corpus, self.special, config)
        self.identity = RunIdentity.of(config, corpus)

    def begin(self, checkpoint: Path | None, *, is_last: bool = False) -> None:
        """Stand where a checkpoint stood, or at the beginning; with `is_last` there is no further step."""
        self.state, plan = RunState(), self.plan
        if checkpoint is not None:
            self.state = load_checkpoint(checkpoint, self.identity, self.stepper.model, self.stepper.optimizer)
            plan.most_steps = self.state.most_steps or plan.most_steps
            plan.num_steps = min(self.state.num_steps or plan.most_steps, plan.most_steps)
        with writing(self.out):
            self.log = TrainingLog(self.out, self.processes, self.state)
        self._saved_at = self.log.seconds
        self._measured_at: float | None = None
        if is_last:
            self._report(f"Taken as it was after step {self.state.step} of {plan.num_steps}.")
            plan.num_steps = self.state.step
        elif checkpoint is not None:
            self._report(f"Going on after step {self.state.step} of {plan.num_steps}.")

    def finish(self) -> TrainingResult:
        """Take all steps that are left, and write the model directory."""
        try:
            while self.state.step < self.plan.num_steps:
                self._validate()
                self._stop_if_asked()
                self._train_epoch()
            self._validate()
            self.processes.wait()
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
            scale = scale_rate(self.state.step, self.plan.num_steps, self.config.training.warmup_share)
            sums, finite = self.stepper.update(sums, scale)
            self.state.step += 1
            self.log.add(made.num_rows, made.num_tokens, sums, finite)
            self._limit_to_minutes()
            self._log_if_due(made, scale)
            self._report()
            self._save_if_due()
        self._stop_if_asked()
        return True

    def _accumulate(self, made: StepBatches) -> Tensor | None:
        """Put the gradients of a step in place; None if memory ran out, the limit on its parts then halved."""
        short = f"Memory ran out at step {self.state.step + 1}"
        try:
            return self.stepper.accumulate(made, self.state.step)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            num_tokens, rows = max(zip(made.part_tokens, made.parts, strict=True), key=lambda part: part[0])
            if self.processes.count > 1:
                raise TrainingError(
                    f"{short}, and several processes cannot change their parts on the way. Start again with smaller "
                    "batches (rows_per_batch)."
                ) from error
            if len(rows) == 1:
                raise TrainingError(
                    f"{short} for a single row of {num_tokens} tokens. Prepare the corpus with fewer max_tokens, or "
                    "take a smaller backbone."
                ) from error
        self.stepper.recorder = None  # from here on batches are made on the host
        release_memory()
        self.state.max_tokens = num_tokens // 2
        self._report(
            f"{short}: from here on a step is taken in parts of at most {self.state.max_tokens} tokens; its rows stay, "
            "segments are compared within a part."
        )
        return None

    def _limit_to_minutes(self) -> None:
        """Set how many steps the minutes of a run allow: once it has shown how fast it is, and now and then again."""
        minutes = self.config.training.minutes
        if minutes is None or not (self.processes.is_main and self._may_agree()):
            return
        seconds, step_seconds = self.log.seconds, self.log.estimate(1)
        self._measured_at = self._measured_at or seconds
        wait = MEASURED_SHARE * 60 * minutes
        if self.state.num_steps is None:
            wait = min(wait, MEASURED_SECONDS)
        if step_seconds is None or seconds < self._measured_at + wait:
            return
        left = max(0, int((60 * minutes - seconds) / step_seconds))
        self.plan.num_steps = min(self.plan.most_steps, self.state.step + left)
        is_new, self.state.num_steps, self._measured_at = self.state.num_steps is None, self.plan.num_steps, seconds
        if is_new:
            seen, rows = self.plan.num_steps * self.config.sampler.rows_per_batch, len(self.corpus.rows_of("train"))
            times = "once" if seen <= rows else f"{seen / rows:.1f} times"
            length = "1 minute" if minutes == 1 else f"{minutes:g} minutes"
            self._report(f"{length} will see about {min(seen, rows):,} of {rows:,} rows, {times}.")

    def _log_if_due(self, made: StepBatches, scale: float) -> None:
        """Write a line of metrics if that is due; raise if too many steps in a row were skipped."""
        step, config = self.state.step, self.config.training
        due = step % config.log_every == 0 or step in self.plan.boundaries
        if due or self.stepper.device.type == "cpu":
            in_a_row = self.log.fetch_skipped()[1]
            if in_a_row >= MAX_SKIPPED:
                raise TrainingError(
                    f"The loss was not finite {in_a_row} steps in a row; stopped at step {step}, the weights as before "
                    f"them. The last batch: {name_rows(self.corpus, made)}. Look for damaged values there, or lower "
                    "the learning rates."
                )
        if due:
            entries = {"epoch": self.plan.find_epoch(step - 1) + 1, "learning_rate": config.learning_rate * scale}
            with writing(self.out):
                self.log.write_train(entries)

    def _validate(self) -> None:
        """Validate where the run stands, if that is due and not yet done."""
        boundaries, done = self.plan.boundaries, len(self.state.validation)
        if done == len(boundaries) or boundaries[done] != self.state.step:
            return
        measures = self.validation(self.stepper)
        if measures and done == 0 and self.processes.is_main:
            measures |= self.validation.measure_majority()
        with self.signals.hold(), writing(self.out):
            self.log.write_validation(measures)
            if done > 0:
                self._limit_if_not_lower(measures.get("masked_loss"))

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

    def _save_if_due(self) -> None:
        steps, minutes = self.config.training.checkpoint_steps, self.config.training.checkpoint_minutes
        waited = self.log.seconds - self._saved_at
        if (steps and self.state.step % steps == 0) or (minutes and waited >= 60 * minutes):
            self._save()

    def _save(self) -> None:
        """Save a checkpoint; only the main process writes."""
        self._saved_at = self.log.seconds
        if self.processes.is_main:
            stepper, keep = self.stepper, self.config.training.keep_checkpoints
            with writing(self.out):
                self.log.save()
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
            num_steps = self.plan.num_steps if self.processes.is_main else 0
            number, self.plan.num_steps = self.processes.max(self.signals.came, num_steps)
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
        step, minutes = self.state.step, self.config.training.minutes
        left = self.log.estimate(self.plan.num_steps - step)
        if minutes is not None and self.state.num_steps is None:  # as many steps as there are rows, and not as minutes
            left = max(0.0, 60 * minutes - self.log.seconds)
        self.progress(
            StepReport(
                step=step,
                num_steps=self.plan.num_steps,
                epoch=self.plan.find_epoch(max(step - 1, 0)) + 1,
                seconds_left=left,
                metrics=self.state.train,
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
            skipped=self.log.fetch_skipped()[0],
            seconds=self.log.seconds,
            device=f"{self.stepper.device.type}, {str(self.stepper.dtype).removeprefix('torch.')}",
            train=self.state.train,
            validation=list(filter(None, self.state.validation)),
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
