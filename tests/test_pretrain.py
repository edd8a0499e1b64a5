"""Pretraining from a corpus: what a model learns, what a run leaves behind, what it does when something is short."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

import navi
from navi.batches import BatchBuilder
from navi.columns import ColumnProfiles
from navi.corpus import Corpus
from navi.errors import ConfigError, ModelError, TrainingError
from navi.model import NaviModel
from navi.training import PretrainConfig, StepReport, TrainingConfig, TrainingResult, make_preset, pretrain
from navi.training.export import load_values
from navi.training.metrics import Validation

MakeConfig = Callable[..., PretrainConfig]
LOSSES = {
    "default": [8.332705020904541, 8.655532836914062, 8.402520656585693, 8.469385147094727, 8.581305980682373],
    "paper": [6.687178134918213, 6.132116794586182, 6.252705097198486, 6.447378158569336, 6.208291053771973],
}
"""The first losses of each preset on the toy corpus; the paper's are those of the first release."""


@pytest.fixture(scope="module")
def finished(toy_corpus: Corpus, make_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """A finished run with everything that is written by default; do not change it."""
    return navi.pretrain(
        toy_corpus.path, tmp_path_factory.mktemp("run") / "model", make_config(training={"workers": 2})
    )


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def read_lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def assert_close(one: Path, other: Path) -> None:
    first, second = read_weights(one), read_weights(other)
    for name, tensor in first.items():
        # It shifts all scores of a query alike: its gradient is rounding alone, which Adam makes steps of.
        near = 1e-3 if name.endswith("key.bias") else 1e-4
        torch.testing.assert_close(tensor, second[name], rtol=1e-3, atol=near, msg=lambda text, name=name: name + text)


def fill_the_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def spoil(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[int], bool]) -> None:
    """Make the predictions of the training steps that `is_bad` chooses, counted from 0, something that is no number."""
    predict, calls = NaviModel.predict_tokens, iter(range(10**6))

    def spoiled(self: NaviModel, *arguments: Any, train_head: bool = True) -> Any:
        logits = predict(self, *arguments, train_head=train_head)
        # Once a step the head is trained, by masked tokens; the words of rows leave it alone.
        return logits * torch.nan if self.training and train_head and is_bad(next(calls)) else logits

    monkeypatch.setattr(NaviModel, "predict_tokens", spoiled)


def run_out_above(monkeypatch: pytest.MonkeyPatch, num_tokens: int) -> list[int]:
    """Make memory run out for training batches of more tokens; return the list to which those of each are added."""
    forward, calls = NaviModel.forward, []

    def limited(self: NaviModel, rows: Any, *attributes: Any, **options: Any) -> Any:
        if self.training:
            # The masked and the plain copy of each row are there while it learns.
            calls.append(rows.num_tokens // 2)
            if calls[-1] > num_tokens:
                raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, rows, *attributes, **options)

    monkeypatch.setattr(NaviModel, "forward", limited)
    return calls


# What a run leaves behind


def test_the_model_directory_is_complete(finished, toy_corpus):
    assert sorted(path.name for path in finished.path.iterdir()) == [
        *("README.md", "columns.arrow", "config.json", "metrics.jsonl"),
        *("model.safetensors", "pretrain.json", "tokenizer.json", "values.arrow"),
    ]
    assert TrainingResult.load(finished.path) == finished
    assert (finished.num_steps, finished.skipped, finished.device) == (18, 0, "cpu, float32")
    assert finished.notes == []
    assert json.loads((finished.path / "tokenizer.json").read_text()) == json.loads(toy_corpus.tokenizer.to_str())
    assert "genre" in load_values(finished.path)["attribute"].to_pylist()
    modes = {(finished.path / name).stat().st_mode for name in ("model.safetensors", "config.json")}
    assert len(modes) == 1


def test_the_model_directory_is_loaded_by_transformers(finished, toy_corpus, special):
    one, other = NaviModel.from_pretrained(finished.path).eval(), AutoModel.from_pretrained(finished.path).eval()
    rows = BatchBuilder(toy_corpus.arrays, special).pack_rows(np.arange(5))
    with torch.no_grad():
        assert torch.equal(one(rows).cls, other(rows).cls)


@pytest.mark.parametrize("content", [None, "{", '{"steps": 3}'])
def test_a_record_that_is_none_is_one_line(tmp_path, content):
    if content is not None:
        (tmp_path / "pretrain.json").write_text(content)
    with pytest.raises(ModelError, match=r"Cannot read .*pretrain.json"):
        TrainingResult.load(tmp_path)


def test_the_metrics_have_a_line_for_each_window_and_each_validation(finished):
    train = read_lines(finished.path, "train")
    assert [line["step"] for line in train] == [2, 4, 6, 8, 9, 10, 12, 14, 16, 18]
    assert [line["epoch"] for line in train] == [1] * 5 + [2] * 5
    assert {"loss", "masked", "low", "high", "bag_of_words", "views", "keeping", "norm"} < set(train[0])
    validation = read_lines(finished.path, "validation")
    assert [(line["step"], line["epoch"]) for line in validation] == [(0, 0), (9, 1), (18, 2)]
    assert {"most_frequent_header", "most_frequent_value"} < set(validation[0])
    rates = [line["learning_rate"] for line in train]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(TrainingConfig().learning_rate / 17)


def test_the_card_says_what_how_and_from_what(finished, tiny_backbone):
    card, (first, *_, last) = (finished.path / "README.md").read_text(), finished.validation
    assert card.startswith("---\nlibrary_name: navi-tables\n")
    for part in (
        f"fingerprint `{finished.corpus['fingerprint']}`",
        f"{finished.corpus['train_rows']} training rows of 160 in 4 tables",
        f"| loss of masked tokens | {first['masked_loss']:.4f} | {last['masked_loss']:.4f} |  |",
        f"| {last['value_accuracy']:.4f} | {first['most_frequent_value']:.4f} |",
        'navi.Navi.from_pretrained("path/of/this/folder")',
    ):
        assert part in card
    assert str(tiny_backbone.parent) not in card


def test_a_model_without_values_has_none_of_the_tables_in_its_directory(toy_corpus, toy_tables, make_config, tmp_path):
    rows = [json.loads(line) for file in toy_tables.iterdir() for line in file.read_text().splitlines()]
    values = {value for row in rows for value in row.values() if value.replace(" ", "").isalpha()}
    for keep in (True, False):
        config = make_config(training={"max_steps": 2, "keep_values": keep})
        pretrain(toy_corpus, tmp_path / str(keep), config)
    vocabulary = {"model.safetensors", "tokenizer.json"}  # every word of these tables is one of the tokenizer's
    for keep in (True, False):
        files = [file for file in (tmp_path / str(keep)).rglob("*") if file.is_file() and file.name not in vocabulary]
        found = [file.name for file in files for value in values if value.encode() in file.read_bytes()]
        assert bool(found) == keep, found
    profiles = ColumnProfiles.load(tmp_path / "False")
    assert profiles.headers
    assert not profiles.vectors["value"].any()
    assert not profiles.facts.any()
    assert [name for name, bags in profiles.bags.items() if bags.nnz] == ["header_words", "header_grams"]
    model = navi.Navi.from_pretrained(tmp_path / "False", device="cpu")
    frame = [row for row in rows if "film title" in row]
    assert model.name_columns(frame, ["genre"]).columns[0].candidates
    assert model.impute([*frame, {"film title": "night king"}]).filled is not None


# What a run learns


@pytest.mark.parametrize("preset", LOSSES)
def test_the_losses_of_a_preset_are_what_they_always_were(toy_corpus, tiny_backbone, tmp_path, preset):
    fast = {
        "sampler": {"rows_per_batch": 32, "tables_per_batch": 4},
        "views": {"rows_between": 32},
        # The sixth step is not pinned, but the schedule is that of six.
        "training": {"max_steps": 6, "log_every": 1, "workers": 0, "precision": "float32"},
    }
    base = replace(make_preset(preset), backbone=str(tiny_backbone))
    pretrain(toy_corpus, tmp_path, PretrainConfig.from_dict(fast, base))
    found = [line["loss"] for line in read_lines(tmp_path, "train")]
    assert found[:5] == pytest.approx(LOSSES[preset], rel=1e-5)


def test_the_toy_corpus_is_learned(toy_corpus, make_config, tmp_path):
    training = {"epochs": 14, "learning_rate": 3e-3, "new_learning_rate": 3e-3, "log_every": 50}
    first, *_, last = pretrain(toy_corpus, tmp_path, make_config(training=training)).validation
    assert last["masked_loss"] < 0.5 * first["masked_loss"]
    assert last["header_accuracy_blind"] > first["most_frequent_header"]
    assert last["value_accuracy"] > first["value_accuracy"] + 0.1


def test_the_seed_decides_and_workers_do_not_and_the_caller_is_left_alone(toy_corpus, make_config, tmp_path, capfd):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    runs = {"one": {"workers": 0}, "two": {"workers": 3}, "other": {"seed": 1}}
    for name, training in runs.items():
        pretrain(toy_corpus, tmp_path / name, make_config(training={"max_steps": 3, **training}))
    one, two, other = (read_weights(tmp_path / name) for name in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.rand(3), expected)
    assert capfd.readouterr() == ("", "")


def test_a_limit_of_minutes_ends_the_run_in_time_with_its_rate_at_rest(toy_corpus, make_config, tmp_path, monkeypatch):
    clock = count(0.0, 0.01)  # a machine that is always as fast
    monkeypatch.setattr("navi.training.metrics.monotonic", lambda: next(clock))
    config = make_config(training={"epochs": 100_000, "max_steps": None, "minutes": 0.03, "log_every": 1})
    result = pretrain(toy_corpus, tmp_path / "model", config)
    assert 5 < result.num_steps < 100
    assert 0.8 * 1.8 < result.seconds < 1.2 * 1.8
    assert any("0.03 minutes will see about 13" in note for note in result.notes)
    rates = [line["learning_rate"] for line in read_lines(tmp_path / "model", "train")]
    assert rates[-1] == min(rates[len(rates) // 2 :]) < 0.2 * max(rates)
    assert read_lines(tmp_path / "model", "validation")[-1]["step"] == result.num_steps


@pytest.mark.parametrize(("losses", "expected"), [([9, 8, 7, 7.5, 6], 4), ([9, 8, 8, 8, 8], 3), (range(20, 0, -1), 10)])
def test_epochs_go_on_while_they_lower_the_validation_loss_and_one_more(
    toy_corpus, make_config, tmp_path, monkeypatch, losses, expected
):
    measure, found = Validation.__call__, iter(losses)

    def pretend(self: Validation, stepper: Any) -> dict[str, float]:
        return measure(self, stepper) | {"masked_loss": float(next(found))}

    monkeypatch.setattr(Validation, "__call__", pretend)
    training, sampler = {"epochs": None, "validate_rows": 2, "log_every": 1}, {"rows_per_batch": 64}
    views = {"weight": 0.0, "keep_weight": 0.0}
    result = pretrain(toy_corpus, tmp_path, make_config(training=training, views=views, sampler=sampler))
    assert result.num_steps == expected * 3  # steps of an epoch
    assert result.train["learning_rate"] < 0.5 * TrainingConfig().learning_rate
    assert [note for note in result.notes if "has not lowered the validation loss" in note] == result.notes
    assert len(result.notes) == (expected < 10)


def test_without_validation_rows_a_run_still_ends(toy_corpus, make_config, tmp_path):
    result = pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 2, "validate_rows": 0}))
    assert result.validation == []
    assert "There were no validation rows." in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"attribute_embedding": False}},
        {"masking": {"whole_spans": False}},
        {"alignment": {"weight": 0.0}},
        {"alignment": {"random_routing": True}},
        {"alignment": {"weight": 0.0, "row_weight": 0.0}},
        {"model": {"attribute_gate": False, "local_head_share": 0.0}},
        {"views": {"rows_between": 32}},
        {"training": {"precision": "bfloat16"}},
        {"training": {"graphs": True}},
        {"model": {"dropout": 0.0}},
    ],
    ids=str,
)
def test_every_variant_trains(toy_corpus, make_config, tmp_path, sections):
    sections = {**sections, "training": {"max_steps": 2, **sections.get("training", {})}}
    result = pretrain(toy_corpus, tmp_path, make_config(**sections))
    assert result.skipped == 0
    assert result.train["loss"] > 0


def test_progress_goes_up_to_the_end(toy_corpus, make_config, tmp_path):
    reports: list[StepReport] = []
    pretrain(toy_corpus, tmp_path, make_config(), progress=reports.append)
    assert [(report.step, report.epoch) for report in reports] == [(step, 1 + (step > 9)) for step in range(1, 19)]
    assert {report.num_steps for report in reports} == {18}
    assert reports[-1].seconds_left == 0.0
    assert min(reports[-1].metrics["rows_per_second"], reports[-1].metrics["loss"]) > 0


def test_a_corpus_of_another_vocabulary_is_refused(toy_corpus, make_config, tiny_backbone, tmp_path):
    from navi.backbones import load_tokenizer

    tokenizer = load_tokenizer(tiny_backbone)
    tokenizer.add_tokens(["brandnew"])
    with pytest.raises(ModelError, match="another vocabulary than that of the backbone"):
        pretrain(replace(toy_corpus, tokenizer=tokenizer), tmp_path, make_config())


# When something is short


def test_running_out_of_memory_changes_the_parts_and_not_the_outcome(toy_corpus, make_config, tmp_path, monkeypatch):
    # Without dropout, and without losses that compare rows of different tables, a step in parts can equal the whole.
    training = {"max_steps": 6}
    config = make_config(model={"dropout": 0.0}, alignment={"low_negatives": "table"}, training=training)
    pretrain(toy_corpus, tmp_path / "roomy", config)
    calls = run_out_above(monkeypatch, 200)
    reports: list[StepReport] = []
    result = pretrain(toy_corpus, tmp_path / "tight", config, progress=reports.append)
    assert any(tokens > 200 for tokens in calls)
    assert 1 <= len(result.notes) <= 3
    assert all("Memory ran out at step" in note for note in result.notes)
    assert [report.note for report in reports if report.note] == result.notes
    assert result.num_steps == 6
    assert_close(tmp_path / "roomy", tmp_path / "tight")


def test_running_out_of_memory_gives_up_recorded_passes(toy_corpus, make_config, tmp_path, monkeypatch):
    run_out_above(monkeypatch, 200)
    result = pretrain(toy_corpus, tmp_path, make_config(training={"graphs": True, "max_steps": 4}))
    assert any("Memory ran out at step 1" in note for note in result.notes)
    assert result.num_steps == 4


def test_a_row_too_large_for_memory_ends_the_run(toy_corpus, make_config, tmp_path, monkeypatch):
    run_out_above(monkeypatch, 5)
    with pytest.raises(TrainingError, match=r"Memory ran out at step 1 for a single row of \d+ tokens"):
        pretrain(toy_corpus, tmp_path, make_config())


def test_steps_whose_loss_is_not_finite_are_skipped_and_counted(toy_corpus, make_config, tmp_path, monkeypatch):
    spoil(monkeypatch, lambda call: call in (3, 4, 10))
    result = pretrain(toy_corpus, tmp_path, make_config())
    assert (result.skipped, result.num_steps) == (3, 18)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in read_weights(tmp_path).values())
    assert all(line["loss"] is not None for line in read_lines(tmp_path, "train"))


def test_too_many_such_steps_in_a_row_stop_the_run_and_name_the_rows(toy_corpus, make_config, tmp_path, monkeypatch):
    spoil(monkeypatch, lambda call: call >= 4)
    monkeypatch.setattr("navi.training.trainer.MAX_SKIPPED", 3)
    message = r"not finite 3 steps in a row; stopped at step 7.*films1 rows \d+, .*; films2 rows \d+"
    with pytest.raises(TrainingError, match=message):
        pretrain(toy_corpus, tmp_path, make_config())


def test_a_full_disk_stops_the_run_in_one_line_and_it_goes_on_when_there_is_room(
    toy_corpus, make_config, tmp_path, monkeypatch
):
    def watch(report: StepReport) -> None:
        if report.step == 5:
            monkeypatch.setattr("navi.training.checkpoint.save_file", fill_the_disk)

    config = make_config(training={"checkpoint_steps": 2, "max_steps": 7})
    with pytest.raises(TrainingError, match=r"No space left on device\. .* is step-000000004\. Make room, then resume"):
        pretrain(toy_corpus, tmp_path / "full", config, progress=watch)
    monkeypatch.undo()
    pretrain(toy_corpus, tmp_path / "full", config, resume=True)
    pretrain(toy_corpus, tmp_path / "roomy", config)
    full, roomy = read_weights(tmp_path / "full"), read_weights(tmp_path / "roomy")
    assert all(torch.equal(full[name], roomy[name]) for name in full)


def test_an_unwritable_directory_is_refused_before_anything_is_computed(toy_corpus, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"Cannot write to .*file.*: Not a directory"):
        pretrain(toy_corpus, tmp_path / "file" / "model")


def test_another_failure_of_the_device_is_not_taken_for_a_lack_of_memory(
    toy_corpus, make_config, tmp_path, monkeypatch
):
    def fail(self: NaviModel, *_: Any, **__: Any) -> Any:
        raise RuntimeError("device lost")

    monkeypatch.setattr(NaviModel, "forward", fail)
    with pytest.raises(RuntimeError, match="device lost"):
        pretrain(toy_corpus, tmp_path, make_config())
