"""The settings of a run: defaults, presets and ablations, a file over them, flags over all."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from navi.corpus import PrepareConfig
from navi.errors import ConfigError
from navi.training import (
    ABLATIONS,
    PRESETS,
    ModelConfig,
    PretrainConfig,
    StepReport,
    TrainingConfig,
    TrainingResult,
    make_preset,
)
from navi.training.trainer import choose_preset

Command = Callable[..., Any]


@pytest.fixture
def write_toml(tmp_path: Path, tiny_backbone: Path) -> Callable[[str], Path]:
    """A writer of settings files under which a run takes a second."""

    def write(text: str = "") -> Path:
        fast = '[sampler]\nrows_per_batch = 16\n[training]\nmax_steps = 2\nworkers = 0\nprecision = "float32"\n{}'
        (tmp_path / "navi.toml").write_text(fast.format(text))
        return tmp_path / "navi.toml"

    return write


def test_the_paper_preset_has_the_papers_settings():
    paper = make_preset("paper")
    masking, alignment, training = paper.masking, paper.alignment, paper.training
    assert (masking.header_share, masking.value_share, masking.unknown_attribute_rate) == (0.4, 0.4, 0.0)
    assert (masking.whole_spans, masking.token_share, masking.mask_rate, masking.random_rate) == (True, 0.15, 0.8, 0.1)
    assert (alignment.row_weight, paper.views.weight, paper.views.keep_weight) == (0.0, 0.0, 0.0)
    assert (paper.model.attribute_gate, paper.model.local_head_share) == (False, 0.0)
    assert (paper.model.header_attribute, paper.model.row_words, paper.model.shared_words) == (False, False, False)
    assert (paper.model.attribute_embedding, alignment.random_routing, paper.backbone) == (True, False, "minilm")
    assert (paper.sampler.rows_per_batch, paper.sampler.tables_per_batch) == (32, 4)
    assert (training.learning_rate, training.new_learning_rate, training.epochs) == (3e-5, 3e-5, 2)
    assert training.weight_decay == 0.01
    assert (alignment.low_negatives, alignment.same_value_negatives) == ("table", True)
    assert (alignment.weight, alignment.temperature_low, alignment.temperature_high) == (0.0125, 0.1, 0.02)
    assert (PrepareConfig().theta_low, PrepareConfig().theta_high) == (0.05, 0.95)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("ablation", ABLATIONS)
def test_an_ablation_changes_one_section_of_a_preset(preset, ablation):
    whole, ablated = make_preset(preset).to_dict(), make_preset(preset, ablation).to_dict()
    has_part = (preset, ablation) != ("paper", "without_views")  # the paper reads no columns as texts
    assert [name for name in whole if whole[name] != ablated[name]] == (list(ABLATIONS[ablation]) if has_part else [])


def test_an_unknown_preset_or_ablation_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"Unknown preset 'fast'. Expected one of default, paper"):
        make_preset("fast")
    with pytest.raises(ConfigError, match=r"Unknown ablation 'x'. Expected one of without_attributes"):
        make_preset("paper", "x")


def test_only_what_is_set_changes_and_settings_survive_a_trip_through_json():
    assert make_preset() == PretrainConfig()
    assert PretrainConfig.from_dict({"training": {"checkpoint_minutes": None}}).training.checkpoint_minutes is None
    base = PretrainConfig(training=TrainingConfig(epochs=9))
    changed = PretrainConfig.from_dict({"training": {"learning_rate": 1}, "model": {"attribute_gate": False}}, base)
    assert changed.training == TrainingConfig(epochs=9, learning_rate=1.0)
    assert type(changed.training.learning_rate) is float
    assert changed.model == ModelConfig(attribute_gate=False)
    assert PretrainConfig.from_dict(json.loads(json.dumps(changed.to_dict()))) == changed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": 3}, "backbone must be text, got 3"),
        ({"training": 3}, "training is a section of settings, got 3"),
        ({"training": {"keep_values": 1}}, "training.keep_values must be true or false, got 1"),
        ({"training": {"clip_norm": "high"}}, "training.clip_norm must be a number, got 'high'"),
        ({"training": {"clip_norm": True}}, "training.clip_norm must be a number, got True"),
        ({"training": {"max_steps": 1.5}}, "training.max_steps must be a whole number or none, got 1.5"),
        ({"training": {"precision": "half"}}, "must be one of 'auto', 'float32', 'bfloat16', got 'half'"),
        ({"training": {"stepz": 3}}, r"Unknown setting 'training.stepz'. Did you mean 'training.epochs'|max_steps"),
        ({"zzzzzz": 3}, "Unknown setting 'zzzzzz'. Known here are backbone, model, masking"),
        ({"model": {"local_head_share": 1.0}}, "local_head_share and dropout must be less than 1, got 1"),
        ({"masking": {"header_share": 0.9}}, r"header_share \+ value_share must be at most 1"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_expected(settings, message):
    with pytest.raises(ConfigError, match=message):
        PretrainConfig.from_dict(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"learning_rate": 0.0}, "learning_rate must be more than 0, got 0.0"),
        ({"checkpoint_minutes": -1.0}, "checkpoint_minutes must be more than 0"),
        ({"warmup_share": 1.5}, "warmup_share must lie between 0 and 1, got 1.5"),
        ({"precision": "float16"}, "precision must be one of auto, float32, bfloat16, got 'float16'"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(**settings)


# The command line


def test_flags_go_over_the_file_the_file_over_the_preset(toy_corpus, write_toml, tmp_path, navi_command):
    file = write_toml("seed = 9\nepochs = 3\n[prepare]\nseed = 4\n")
    flags = ("--preset", "paper", "--ablation", "without_alignment", "--config", file, "--seed", 5, "--json")
    record = json.loads(navi_command("pretrain", toy_corpus.path, "-o", tmp_path / "model", *flags).stdout)
    training = record["config"]["training"]
    assert (training["seed"], training["epochs"], training["learning_rate"]) == (5, 3, 3e-5)
    assert record["config"]["alignment"]["weight"] == 0.0
    assert record["config"]["sampler"] == {"rows_per_batch": 16, "tables_per_batch": 4, "max_table_rows": None}
    assert record["config"]["backbone"] == str(toy_corpus.config.backbone)
    assert record["num_steps"] == 2


def test_the_summary_sets_validation_beside_the_majority(toy_corpus, write_toml, tmp_path, navi_command):
    shown = navi_command("pretrain", toy_corpus.path, "-o", tmp_path / "model", "--config", write_toml()).stdout
    assert "2 steps on cpu, float32" in shown
    for text in ("before", "most frequent guess", "headers, attribute hidden (blind)"):
        assert text in shown
    (worth,) = (line for line in shown.splitlines() if line.startswith("Worth it? ") and ": headers named " in line)
    assert ", values filled " in worth
    assert ", columns matched " in worth
    assert "No better than the most frequent guess yet: " in " ".join(shown.split())
    assert "navi match " in shown


def test_a_stopped_run_goes_on_with_the_settings_it_was_started_with(
    toy_corpus, write_toml, tmp_path, navi_command, monkeypatch
):
    def stop(meter: object, report: StepReport) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("navi.cli.console.Meter.show_training", stop)
    arguments = ("pretrain", toy_corpus.path, "-o", tmp_path / "model")
    stopped = navi_command(*arguments, "--config", write_toml(), code=143)
    assert stopped.stderr.splitlines()[-1].startswith("navi: Stopped by SIGTERM after step 1 of 2")
    monkeypatch.undo()
    record = json.loads(navi_command(*arguments, "--resume", "--json").stdout)
    assert record["num_steps"] == 2
    assert record["config"]["sampler"]["rows_per_batch"] == 16
    assert record["notes"] == ["Going on after step 1 of 2."]
    again = json.loads(navi_command(*arguments, "--resume", "--json").stdout)
    assert again == record
    refused = navi_command(*arguments, "--resume", "--epochs", 9, code=1)
    assert "training.epochs was None and is now 9" in refused.stderr
    assert "holds a finished model" in navi_command(*arguments, code=2).stderr


def test_without_a_gpu_a_run_takes_ten_minutes_unless_a_length_is_named(
    monkeypatch, toy_corpus, tmp_path, navi_command
):
    given: list[PretrainConfig] = []

    def stop(corpus: object, out: Path, config: PretrainConfig, **_: object) -> TrainingResult:
        given.append(config)
        raise ConfigError("That is enough.")

    monkeypatch.setattr("navi.training.pretrain", stop)
    monkeypatch.setattr("navi.training.processes.torch.cuda.is_available", lambda: False)
    for flags in ([], ["--epochs", 3], ["--max-steps", 5], ["--minutes", 2], ["--preset", "paper"]):
        navi_command("pretrain", toy_corpus.path, "-o", tmp_path / "model", *flags, code=2)
    lengths = [(each.training.minutes, each.training.epochs, each.training.max_steps) for each in given]
    assert lengths == [(10.0, None, None), (None, 3, None), (None, None, 5), (2.0, None, None), (None, 2, None)]
    assert [each.sampler.rows_per_batch for each in given] == [16, 16, 16, 16, 32]
    assert choose_preset(torch.device("cuda")) == "default"


def test_a_stopped_run_can_be_used_without_further_steps(
    toy_corpus, toy_tables, write_toml, tmp_path, navi_command, monkeypatch
):
    def stop(meter: object, report: StepReport) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    command = ("pretrain", toy_corpus.path, "-o", tmp_path / "model")
    assert "has no checkpoint to finish" in navi_command(*command, "--finish", code=2).stderr
    monkeypatch.setattr("navi.cli.console.Meter.show_training", stop)
    assert "To use it as it is: --finish." in navi_command(*command, "--config", write_toml(), code=143).stderr
    monkeypatch.undo()
    checkpoint = load_file(tmp_path / "model" / "checkpoints" / "step-000000001" / "model.safetensors")
    record = json.loads(navi_command(*command, "--finish", "--json").stdout)
    assert (record["num_steps"], record["notes"]) == (1, ["Taken as it was after step 1 of 2."])
    assert [line["step"] for line in record["validation"]] == [0, 1]
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert all(torch.equal(weights[name], tensor) for name, tensor in checkpoint.items())
    navi_command("embed", toy_tables, "--model", tmp_path / "model", "-o", tmp_path / "rows.parquet", "--quiet")
    assert json.loads(navi_command(*command, "--finish", "--json").stdout) == record


def test_a_folder_of_tables_is_prepared_with_the_vocabulary_it_is_learned_with(
    toy_tables, tiny_backbone, write_toml, tmp_path, navi_command
):
    file = write_toml("[prepare]\nseed = 4\nmax_unknown_share = 1.0\n")
    flags = ("-o", tmp_path / "model", "--from", tiny_backbone, "--config", file, "--max-steps", 1, "--quiet")
    assert navi_command("pretrain", toy_tables, *flags).output == ""
    assert {path.name for path in tmp_path.iterdir()} >= {"model", "model-corpus"}
    record = TrainingResult.load(tmp_path / "model")
    assert (record.num_steps, record.config["backbone"]) == (1, str(tiny_backbone))
    assert record.corpus["settings"]["seed"] == 4
    navi_command("pretrain", toy_tables, *flags, "--resume")
    assert "model-corpus already" in navi_command("pretrain", toy_tables, *flags, code=2).stderr


def test_a_users_mistake_is_one_line(toy_corpus, write_toml, tmp_path, navi_command):
    (tmp_path / "none").mkdir()
    broken = write_toml("[training\n")
    for source, flags, message in (
        (toy_corpus.path, ("--preset", "papre"), "'paper'"),
        (toy_corpus.path, ("--epochs", 0), "navi: epochs must be at least 1, got 0."),
        (toy_corpus.path, ("--config", tmp_path / "none.toml"), "none.toml"),
        (toy_corpus.path, ("--config", broken), "is not valid TOML"),
        (tmp_path / "none", (), "No tables in"),
    ):
        assert message in navi_command("pretrain", source, "-o", tmp_path / "model", *flags, code=2).stderr
    assert not (tmp_path / "model").exists()
