"""What a run writes down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from navi.training.metrics import BadSteps, Journal, MetricsLog, Window
from navi.training.step import SUMS, StepOutcome

CPU = torch.device("cpu")


def make_outcome(*, finite: bool = True, **sums: float) -> StepOutcome:
    entries = [sums.get(name, 0.0) for name in SUMS]
    return StepOutcome(sums=torch.tensor(entries, dtype=torch.float64), finite=torch.tensor(finite))


def test_a_window_has_means_of_losses_shares_of_hits_and_counts() -> None:
    window = Window(CPU)
    window.add(make_outcome(loss=3.0, norm=1.0, header_hits=1, header_targets=4, rows=8, tokens=100))
    window.add(make_outcome(loss=1.0, norm=2.0, header_hits=2, header_targets=2, rows=7, tokens=50))
    found = window.summarize()
    assert (found["loss"], found["norm"], found["header_accuracy"]) == (2.0, 1.5, 0.5)
    assert (found["rows"], found["tokens"]) == (15, 150)
    assert found["value_accuracy"] is None


def test_a_skipped_step_leaves_no_trace_in_a_window() -> None:
    window = Window(CPU)
    window.add(make_outcome(loss=3.0, rows=8))
    window.add(make_outcome(loss=torch.nan, rows=8, finite=False))
    assert window.summarize()["loss"] == 3.0
    assert window.summarize()["rows"] == 8


def test_a_window_of_skipped_steps_has_no_loss() -> None:
    window = Window(CPU)
    window.add(make_outcome(loss=torch.nan, finite=False))
    assert window.summarize()["loss"] is None


def test_a_window_goes_on_from_where_it_was_saved() -> None:
    whole, first = Window(CPU), Window(CPU)
    for loss in (1 / 3, 1 / 7):
        whole.add(make_outcome(loss=loss, rows=3))
        first.add(make_outcome(loss=loss, rows=3))
    second = Window(CPU, json.loads(json.dumps(first.save())))
    for window in (whole, second):
        window.add(make_outcome(loss=1 / 11, rows=3))
    assert whole.summarize() == second.summarize()


def test_skipped_steps_are_counted_in_all_and_in_a_row() -> None:
    bad_steps = BadSteps(CPU, skipped=2, in_a_row=1)
    for finite in (False, True, False, False):
        bad_steps.add(torch.tensor(finite))
    assert bad_steps.fetch() == (5, 2)


def test_a_journal_is_cut_back_to_a_size(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.txt")
    assert journal.size == 0
    journal.append("first\n")
    size = journal.size
    journal.append("secönd\n")
    journal.cut(size)
    assert journal.path.read_text() == "first\n"


def test_a_journal_that_was_lost_is_not_made_up(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.txt")
    journal.cut(100)
    assert not journal.path.exists()


def test_a_shorter_journal_is_left_as_it_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.txt")
    journal.append("x")
    journal.cut(100)
    assert journal.path.read_text() == "x"


def test_lines_are_read_back_by_kind(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, events=False)
    log.write("train", 1, {"loss": 0.5})
    log.write("validation", 1, {"masked_loss": 0.25})
    assert log.read("train") == [{"kind": "train", "step": 1, "loss": 0.5}]
    assert log.read("validation") == [{"kind": "validation", "step": 1, "masked_loss": 0.25}]


def test_a_log_without_a_file_is_empty(tmp_path: Path) -> None:
    assert MetricsLog(tmp_path, events=False).read("train") == []


def test_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, events=False)
    log.write("train", 1, {"loss": float("nan"), "norm": float("inf")})
    assert json.loads(log.journal.path.read_text()) == {"kind": "train", "step": 1, "loss": None, "norm": None}


def test_events_are_written_where_tensorboard_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(tmp_path)
    log.write("train", 3, {"loss": 0.5, "high": None})
    log.close()
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(3, 0.5)]
    assert events.Tags()["scalars"] == ["train/loss"]


def test_without_tensorboard_there_are_lines_and_no_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    log = MetricsLog(tmp_path)
    log.write("train", 3, {"loss": 0.5})
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert not log.events
