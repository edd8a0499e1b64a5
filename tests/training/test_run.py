"""Pretraining from end to end."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from navi.batches import BatchBuilder
from navi.corpus import Corpus
from navi.errors import ConfigError, ModelError, TrainingError
from navi.model import NaviModel
from navi.training import Domain, PretrainConfig, StepReport, TrainingConfig, TrainingResult, pretrain
from navi.training.checkpoint import FOLDER, list_checkpoints
from navi.training.step import Objective
from navi.training.vocabulary import find_special_tokens

MakeConfig = Callable[..., PretrainConfig]


@pytest.fixture(scope="module")
def finished(toy_corpus: Corpus, make_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """A finished run with everything that is written by default; do not change it."""
    config = make_config(training={"curves": True, "workers": 2})
    return pretrain(toy_corpus.path, tmp_path_factory.mktemp("run") / "model", config)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_close(one: Path, other: Path) -> None:
    first, second = read_weights(one), read_weights(other)
    for name, tensor in first.items():
        # It shifts all scores of a query alike: its gradient is rounding alone, which Adam makes steps of.
        near = 1e-3 if name.endswith("key.bias") else 1e-4
        torch.testing.assert_close(tensor, second[name], rtol=1e-3, atol=near, msg=lambda text, name=name: name + text)


def spoil(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[int], bool]) -> None:
    """Make the loss of the calls that `is_bad` chooses, counted from 0, something that is not a number."""
    forward, calls = Objective.forward, iter(range(10**6))

    def spoiled(self: Objective, batch: Any, size: Any) -> Any:
        losses = forward(self, batch, size)
        return replace(losses, total=losses.total * torch.nan) if is_bad(next(calls)) else losses

    monkeypatch.setattr(Objective, "forward", spoiled)


def run_out_above(monkeypatch: pytest.MonkeyPatch, num_tokens: int) -> list[int]:
    """Make memory run out for batches of more tokens; return the list to which the tokens of each call are added."""
    forward, calls = Objective.forward, []

    def limited(self: Objective, batch: Any, size: Any) -> Any:
        calls.append(batch.num_tokens)
        if batch.num_tokens > num_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, batch, size)

    monkeypatch.setattr(Objective, "forward", limited)
    return calls


def test_the_model_directory_is_complete(finished: TrainingResult) -> None:
    assert {path.name for path in finished.path.iterdir()} == {
        "README.md",
        "columns.arrow",
        "config.json",
        "curves.png",
        "events",
        "headers.arrow",
        "metrics.jsonl",
        "model.safetensors",
        "pretrain.json",
        "samples.txt",
        "scorer.json",
        "tokenizer.json",
        "values.arrow",
    }
    assert finished.notes == []


def test_the_model_directory_is_loaded_by_transformers(finished: TrainingResult, toy_corpus: Corpus) -> None:
    one, other = NaviModel.from_pretrained(finished.path).eval(), AutoModel.from_pretrained(finished.path).eval()
    rows = BatchBuilder(toy_corpus.arrays, find_special_tokens(toy_corpus.tokenizer)).pack_rows(np.arange(5))
    with torch.no_grad():
        assert torch.equal(one(rows).cls, other(rows).cls)


def test_the_model_directory_has_the_corpus_tokenizer_and_domain(finished: TrainingResult, toy_corpus: Corpus) -> None:
    assert json.loads((finished.path / "tokenizer.json").read_text()) == json.loads(toy_corpus.tokenizer.to_str())
    assert "genre" in Domain.load(finished.path).headers["header"].to_pylist()


def test_the_weights_can_be_read_by_whom_other_files_can(finished: TrainingResult) -> None:
    modes = {(finished.path / name).stat().st_mode for name in ("model.safetensors", "config.json")}
    assert len(modes) == 1


def test_the_record_is_what_was_returned(finished: TrainingResult) -> None:
    assert TrainingResult.load(finished.path) == finished
    assert finished.num_steps == 18
    assert (finished.skipped, finished.device) == (0, "cpu, float32")


def test_the_metrics_have_a_line_for_each_window_and_each_validation(finished: TrainingResult) -> None:
    lines = [json.loads(line) for line in (finished.path / "metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in train] == [2, 4, 6, 8, 9, 10, 12, 14, 16, 18]
    assert [line["epoch"] for line in train] == [1] * 5 + [2] * 5
    assert sum(line["rows"] for line in train) == 2 * finished.corpus["train_rows"]
    assert set(train[0]) == {
        *("kind", "step", "epoch", "learning_rate", "loss", "masked", "low", "high"),
        *("told_words", "column_agreement", "norm", "header_accuracy"),
        *("value_accuracy", "rows", "tokens", "skipped", "seconds", "rows_per_second", "tokens_per_second"),
    }
    validation = [line for line in lines if line["kind"] == "validation"]
    assert [(line["step"], line["epoch"]) for line in validation] == [(0, 0), (9, 1), (18, 2)]
    assert "most_frequent_header" in validation[0]


def test_the_rate_rises_and_then_falls_to_the_last_step(finished: TrainingResult) -> None:
    lines = map(json.loads, (finished.path / "metrics.jsonl").read_text().splitlines())
    rates = [line["learning_rate"] for line in lines if line["kind"] == "train"]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(TrainingConfig().learning_rate / 17)


def test_samples_are_written_at_each_validation(finished: TrainingResult) -> None:
    text = (finished.path / "samples.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("step")] == ["step 0", "step 9", "step 18"]
    assert "hidden, guessed: " in text


def test_a_finished_run_has_no_checkpoints_left(finished: TrainingResult) -> None:
    assert not (finished.path / FOLDER).exists()


def test_resuming_a_finished_run_returns_its_record(finished: TrainingResult, toy_corpus: Corpus) -> None:
    before = (finished.path / "model.safetensors").stat().st_mtime_ns
    config = PretrainConfig.from_dict(finished.config)
    assert pretrain(toy_corpus, finished.path, config, resume=True) == finished
    assert (finished.path / "model.safetensors").stat().st_mtime_ns == before


def test_resuming_a_finished_run_with_other_settings_is_refused(finished: TrainingResult, toy_corpus: Corpus) -> None:
    config = PretrainConfig.from_dict({"training": {"seed": 5}}, PretrainConfig.from_dict(finished.config))
    with pytest.raises(TrainingError, match=r"training.seed was 0 and is now 5"):
        pretrain(toy_corpus, finished.path, config, resume=True)


def test_a_finished_model_is_not_written_over_by_chance(finished: TrainingResult, toy_corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="holds a finished model"):
        pretrain(toy_corpus, finished.path, PretrainConfig.from_dict(finished.config))


def test_the_toy_corpus_is_learned(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> None:
    training = {"epochs": 14, "learning_rate": 3e-3, "new_learning_rate": 3e-3, "log_every": 50}
    first, *_, last = pretrain(toy_corpus, tmp_path, make_config(training=training)).validation
    assert last["masked_loss"] < 0.5 * first["masked_loss"]
    assert last["header_accuracy_blind"] > first["most_frequent_header"]
    assert last["value_accuracy"] > first["value_accuracy"] + 0.1


def test_each_epoch_has_masks_of_its_own(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = BatchBuilder.build
    hidden: dict[int, dict[int, list[int]]] = {}

    def watch(self: BatchBuilder, rows: Any, *, epoch: int) -> Any:
        batch = build(self, rows, epoch=epoch)
        row = torch.searchsorted(batch.rows.starts, batch.targets.position.int(), right=True) - 1
        place = batch.targets.position - batch.rows.starts[row]
        for number, member in enumerate(rows.tolist()):
            hidden.setdefault(epoch, {})[member] = place[row == number].tolist()
        return batch

    monkeypatch.setattr(BatchBuilder, "build", watch)
    pretrain(toy_corpus, tmp_path, make_config(training={"validate_rows": 0}))
    assert hidden[0].keys() == hidden[1].keys() == set(toy_corpus.rows_of("train").tolist())
    different = [row for row in hidden[0] if hidden[0][row] != hidden[1][row]]
    assert len(different) > len(hidden[0]) / 2


def test_accumulated_batches_are_one_step(
    toy_corpus: Corpus, calm_backbone: Path, make_config: MakeConfig, tmp_path: Path
) -> None:
    shared = {"backbone": str(calm_backbone), "alignment": {"weight": 0.0, "column_weight": 0.0}}
    halves = make_config(**shared, sampler={"rows_per_batch": 8, "tables_per_batch": 2}, training={"accumulation": 2})
    wholes = make_config(**shared, sampler={"rows_per_batch": 16, "tables_per_batch": 4})
    assert pretrain(toy_corpus, tmp_path / "halves", halves).num_steps == 18
    assert pretrain(toy_corpus, tmp_path / "wholes", wholes).num_steps == 18
    assert_close(tmp_path / "halves", tmp_path / "wholes")


def test_running_out_of_memory_changes_the_parts_and_not_the_outcome(
    toy_corpus: Corpus, calm_backbone: Path, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(backbone=str(calm_backbone), alignment={"low_negatives": "table", "column_weight": 0.0})
    pretrain(toy_corpus, tmp_path / "roomy", config)
    calls = run_out_above(monkeypatch, 200)
    reports: list[StepReport] = []
    result = pretrain(toy_corpus, tmp_path / "tight", config, progress=reports.append)
    failed = [tokens for tokens in calls if tokens > 200]
    assert 1 <= len(failed) <= 3
    assert len(result.notes) == len(failed)
    assert all("Memory ran out at step" in note for note in result.notes)
    assert [report.note for report in reports if report.note] == result.notes
    assert result.num_steps == 18
    assert_close(tmp_path / "roomy", tmp_path / "tight")


def test_running_out_of_memory_gives_up_recorded_passes(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = run_out_above(monkeypatch, 200)
    result = pretrain(toy_corpus, tmp_path, make_config(training={"graphs": True, "max_steps": 4}))
    assert any("Memory ran out at step 1" in note for note in result.notes)
    assert result.num_steps == 4
    assert calls[-1] <= 200


def test_a_resumed_run_remembers_that_memory_was_short(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(report: StepReport) -> None:
        if report.step == 5:
            raise KeyboardInterrupt

    config = make_config(training={"checkpoint_steps": 1})
    calls = run_out_above(monkeypatch, 200)
    with pytest.raises(KeyboardInterrupt):
        pretrain(toy_corpus, tmp_path, config, progress=stop)
    calls.clear()
    result = pretrain(toy_corpus, tmp_path, config, resume=True)
    assert max(calls) <= 200
    assert [note.split(" at ")[0] for note in result.notes[:-1]] == ["Memory ran out"] * (len(result.notes) - 1)
    assert result.notes[-1] == "Going on after step 4 of 18."


def test_a_row_too_large_for_memory_ends_the_run(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_out_above(monkeypatch, 5)
    with pytest.raises(TrainingError, match=r"Memory ran out at step 1 for a single row of \d+ tokens"):
        pretrain(toy_corpus, tmp_path, make_config())


def test_another_failure_of_the_device_is_not_taken_for_a_lack_of_memory(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Objective, batch: Any, size: Any) -> Any:
        raise RuntimeError("device lost")

    monkeypatch.setattr(Objective, "forward", fail)
    with pytest.raises(RuntimeError, match="device lost"):
        pretrain(toy_corpus, tmp_path, make_config())


def test_steps_whose_loss_is_not_finite_are_skipped_and_counted(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, lambda call: call in (3, 4, 10))
    result = pretrain(toy_corpus, tmp_path, make_config(training={"max_bad_steps": 3}))
    assert (result.skipped, result.num_steps) == (3, 18)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in read_weights(tmp_path).values())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert all(line["loss"] is not None for line in lines if line["kind"] == "train")


def test_too_many_such_steps_in_a_row_stop_the_run_and_name_the_rows(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, lambda call: call >= 4)
    message = r"not finite 3 steps in a row; stopped at step 7.*films1 rows \d+, .*; films2 rows \d+"
    with pytest.raises(TrainingError, match=message):
        pretrain(toy_corpus, tmp_path, make_config(training={"max_bad_steps": 3}))


def test_a_full_disk_stops_the_run_in_one_line_and_it_goes_on_when_there_is_room(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def watch(report: StepReport) -> None:
        if report.step == 5:
            monkeypatch.setattr("navi.training.checkpoint.save_file", fill)

    config = make_config(training={"checkpoint_steps": 2})
    with pytest.raises(TrainingError, match=r"checkpoint of step 6 in .*No space left.* is step-000000004. Make room"):
        pretrain(toy_corpus, tmp_path / "full", config, progress=watch)
    monkeypatch.undo()
    pretrain(toy_corpus, tmp_path / "full", config, resume=True)
    pretrain(toy_corpus, tmp_path / "roomy", config)
    full, roomy = read_weights(tmp_path / "full"), read_weights(tmp_path / "roomy")
    assert all(torch.equal(full[name], roomy[name]) for name in full)


def test_a_disk_that_fills_at_the_end_keeps_the_last_checkpoint(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(NaviModel, "save_pretrained", fill)
    with pytest.raises(TrainingError, match=r"Cannot write to .*: No space left on device. The last good"):
        pretrain(toy_corpus, tmp_path, make_config())
    monkeypatch.undo()
    assert list_checkpoints(tmp_path / FOLDER)[-1].name == "step-000000018"
    assert pretrain(toy_corpus, tmp_path, make_config(), resume=True).num_steps == 18


def test_an_unwritable_directory_is_told_before_anything_is_computed(toy_corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"Cannot write to .*file"):
        pretrain(toy_corpus, tmp_path / "file" / "model")


def test_a_run_cannot_be_resumed_with_another_corpus(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path
) -> None:
    def stop(report: StepReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(toy_corpus, tmp_path, make_config(), progress=stop)
    other = replace(toy_corpus, fingerprint="other")
    with pytest.raises(TrainingError, match=r"Cannot resume from .*step-000000000: the corpus has changed"):
        pretrain(other, tmp_path, make_config(), resume=True)


def test_resuming_where_nothing_was_begun_begins(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> None:
    assert pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 2}), resume=True).num_steps == 2


@pytest.mark.parametrize(
    ("training", "expected"),
    [({"checkpoint_minutes": 1e-9}, [0, 1, 2, 3]), ({"checkpoint_steps": 2}, [0, 0, 2, 2]), ({}, [0, 0, 0, 0])],
    ids=str,
)
def test_checkpoints_come_by_steps_or_minutes(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, training: dict[str, Any], expected: list[int]
) -> None:
    newest: list[int] = []

    def watch(report: StepReport) -> None:
        newest.append(int(list_checkpoints(tmp_path / FOLDER)[-1].name.removeprefix("step-")))

    pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 4, **training}), progress=watch)
    assert newest == expected


def test_a_limit_of_steps_ends_the_run_with_a_validation(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path
) -> None:
    result = pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 11}))
    assert [line["step"] for line in result.validation] == [0, 9, 11]
    assert result.train["step"] == 11


def test_without_validation_rows_a_run_still_ends(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> None:
    result = pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 2, "validate_rows": 0}))
    assert result.validation == []
    assert not (tmp_path / "samples.txt").exists()


def test_progress_goes_up_to_the_end(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> None:
    reports: list[StepReport] = []
    pretrain(toy_corpus, tmp_path, make_config(), progress=reports.append)
    assert [report.step for report in reports] == list(range(1, 19))
    assert {report.num_steps for report in reports} == {18}
    assert [report.epoch for report in reports] == [1] * 9 + [2] * 9
    assert reports[-1].seconds_left == 0.0
    assert reports[-1].num_rows == 2 * len(toy_corpus.rows_of("train"))
    assert reports[-1].metrics["loss"] > 0


def test_the_random_state_of_the_caller_is_left_alone(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 1}))
    assert torch.equal(torch.rand(3), expected)


def test_the_seed_decides_and_workers_do_not(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> None:
    runs = {"one": {"workers": 0}, "two": {"workers": 3}, "other": {"seed": 1}}
    for name, training in runs.items():
        pretrain(toy_corpus, tmp_path / name, make_config(training={"max_steps": 3, **training}))
    one, two, other = (read_weights(tmp_path / name) for name in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_corpus_of_another_vocabulary_is_refused(
    toy_corpus: Corpus, make_config: MakeConfig, tiny_backbone: Path, tmp_path: Path
) -> None:
    from navi.backbones import load_tokenizer

    tokenizer = load_tokenizer(tiny_backbone)
    tokenizer.add_tokens(["brandnew"])
    with pytest.raises(ModelError, match="another vocabulary"):
        pretrain(replace(toy_corpus, tokenizer=tokenizer), tmp_path, make_config())


def test_missing_packages_for_curves_are_noted(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("navi.training.curves.can_draw", lambda: False)
    monkeypatch.setattr("navi.training.sitting.can_draw", lambda: False)
    monkeypatch.setattr("navi.training.logbook.can_draw", lambda: False)
    result = pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 1, "curves": True}))
    assert "pip install 'navi-tables[curves]'" in result.notes[0]
    assert not (tmp_path / "curves.png").exists()


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"attribute_embedding": False}},
        {"masking": {"whole_spans": False}},
        {"alignment": {"weight": 0.0}},
        {"alignment": {"random_routing": True}},
        {"alignment": {"weight": 0.0, "row_weight": 0.0, "column_weight": 0.0}},
        {"model": {"attribute_gate": False, "local_head_share": 0.0}},
        {"sampler": {"tokens_per_batch": 150}},
        {"training": {"precision": "bfloat16"}},
        {"training": {"graphs": True}},
        {"model": {"dropout": 0.0}},
    ],
    ids=str,
)
def test_every_variant_trains(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, sections: dict[str, Any]
) -> None:
    sections = {**sections, "training": {"max_steps": 2, **sections.get("training", {})}}
    result = pretrain(toy_corpus, tmp_path, make_config(**sections))
    assert result.skipped == 0
    assert result.train["loss"] > 0
