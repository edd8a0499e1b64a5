"""What a run counts and writes down between two checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from navi.losses.total import StepSize
from navi.training.checkpoint import RunState
from navi.training.logbook import Logbook
from navi.training.step import SUMS, StepBatches, StepOutcome, make_accelerator

MADE = StepBatches(
    parts=[np.arange(4)],
    part_tokens=[20],
    batches=[],
    size=StepSize(num_targets=1, num_tables=1),
    capacity=None,
    epoch=0,
    num_tokens=40,
)


def make_logbook(folder: Path, state: RunState | None = None, *, curves: bool = False) -> Logbook:
    return Logbook(folder, make_accelerator(), state or RunState(), curves=curves)


def make_outcome(loss: float, *, finite: bool = True) -> StepOutcome:
    sums = torch.zeros(len(SUMS), dtype=torch.float64)
    sums[0] = loss
    return StepOutcome(sums=sums, finite=torch.tensor(finite))


def test_a_line_covers_the_steps_since_the_last_one(tmp_path: Path) -> None:
    logbook = make_logbook(tmp_path)
    for step, losses in ((2, (4.0, 2.0)), (3, (1.0,))):
        for loss in losses:
            logbook.add(MADE, make_outcome(loss))
        logbook.write_train(step, {"epoch": 1})
    assert [line["loss"] for line in logbook.metrics.read("train")] == [3.0, 1.0]
    assert logbook.latest["loss"] == 1.0


def test_skipped_steps_are_counted(tmp_path: Path) -> None:
    logbook = make_logbook(tmp_path)
    for finite in (False, True, False, False):
        logbook.add(MADE, make_outcome(1.0, finite=finite))
    assert (logbook.count_skipped(), logbook.count_bad_steps()) == (3, 2)


def test_a_logbook_goes_on_from_a_state_and_forgets_what_came_after(tmp_path: Path) -> None:
    logbook, state = make_logbook(tmp_path), RunState()
    logbook.add(MADE, make_outcome(4.0))
    logbook.write_train(1, {})
    logbook.write_validation(1, {"masked_loss": 2.0}, "a row\n")
    logbook.add(MADE, make_outcome(3.0))
    logbook.add(MADE, make_outcome(3.0, finite=False))
    logbook.save(state)
    logbook.add(MADE, make_outcome(100.0))
    logbook.write_train(4, {})
    logbook.write_validation(4, {"masked_loss": 1.0}, "a row\n")

    again = make_logbook(tmp_path, state)
    assert (again.count_skipped(), again.count_bad_steps()) == (1, 1)
    again.add(MADE, make_outcome(1.0))
    again.write_train(4, {})
    assert [line["loss"] for line in again.metrics.read("train")] == [4.0, 2.0]
    assert [line["step"] for line in again.metrics.read("validation")] == [1]
    assert (tmp_path / "samples.txt").read_text() == "step 1\na row\n\n"


def test_curves_are_drawn_when_there_is_something_to_draw(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    logbook = make_logbook(tmp_path, curves=True)
    logbook.write_validation(0, {"masked_loss": 2.0})
    assert not (tmp_path / "curves.png").exists()
    logbook.add(MADE, make_outcome(4.0))
    logbook.write_train(1, {})
    logbook.write_validation(1, {"masked_loss": 1.0})
    logbook.metrics.close()
    assert (tmp_path / "curves.png").exists()
