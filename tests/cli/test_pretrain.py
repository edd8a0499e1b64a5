from __future__ import annotations

import json
import signal

import pytest

from navi.cli.pretrain import Ablation, Precision, Preset, warn_of_too_little
from navi.training import ABLATIONS, PRESETS
from navi.training.config import PRECISIONS


def test_the_choices_are_those_of_the_library():
    assert [*Preset] == [*PRESETS]
    assert [*Ablation] == [*ABLATIONS]
    assert tuple(Precision) == PRECISIONS


def test_the_summary_sets_validation_beside_the_guesses(corpus, settings_file, tmp_path, navi_command):
    told = navi_command("pretrain", corpus, "-o", tmp_path / "model", "--config", settings_file).stdout
    assert "4 steps on cpu, float32" in told
    assert "before" in told
    assert "most frequent guess" in told
    assert "headers, attribute hidden (blind)" in told
    assert f"navi match --model {tmp_path / 'model'}" in told.replace("\n", "")


@pytest.mark.parametrize(("after", "warned"), [(0.2, True), (0.3, False), (None, False)])
def test_a_model_that_guesses_no_better_than_the_most_frequent_value_should_train_longer(after, warned):
    lines = [{"most_frequent_value": 0.2, "value_accuracy": 0.0}, {"value_accuracy": after}]
    told = ["No better than the most frequent guess yet: values. Train longer: --max-steps, --epochs."]
    assert warn_of_too_little(lines) == (told if warned else [])


def test_json_is_the_record_of_the_run(corpus, settings_file, tmp_path, navi_command):
    flags = ("--max-steps", 1, "--seed", 3, "--rows-per-batch", 6, "--precision", "float32", "--json")
    result = navi_command("pretrain", corpus, "-o", tmp_path / "model", "--config", settings_file, *flags)
    told = json.loads(result.stdout)
    assert (told["num_steps"], told["config"]["training"]["seed"]) == (1, 3)
    assert told["config"]["sampler"] == {"rows_per_batch": 6, "tables_per_batch": 3, "tokens_per_batch": None}
    assert told["config"]["training"]["precision"] == "float32"


def test_a_stopped_run_goes_on_with_the_settings_it_was_started_with(corpus, settings_file, tmp_path, navi_command):
    from navi.training import sitting

    out = tmp_path / "model"
    take_step = sitting.Sitting._take_step

    def stop_after(self, made):
        self.interruption.number = signal.SIGTERM if self.state.step == 1 else None
        return take_step(self, made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sitting.Sitting, "_take_step", stop_after)
        stopped = navi_command("pretrain", corpus, "-o", out, "--config", settings_file, code=143)
    assert stopped.stderr.splitlines()[-1].startswith("navi: Stopped by SIGTERM after step 2 of 4")
    told = json.loads(navi_command("pretrain", corpus, "-o", out, "--resume", "--json").stdout)
    assert told["num_steps"] == 4
    assert told["config"]["sampler"]["rows_per_batch"] == 8


def test_a_finished_run_is_left_as_it_is_by_resume(corpus, model, navi_command):
    before = (model / "model.safetensors").stat().st_mtime_ns
    told = json.loads(navi_command("pretrain", corpus, "-o", model, "--resume", "--json").stdout)
    assert told["num_steps"] == 4
    assert (model / "model.safetensors").stat().st_mtime_ns == before


def test_other_settings_cannot_be_resumed(corpus, model, navi_command):
    result = navi_command("pretrain", corpus, "-o", model, "--resume", "--epochs", 9, code=1)
    assert "training.epochs was 2 and is now 9" in result.stderr


def test_a_model_is_replaced_only_when_asked(corpus, model, navi_command):
    assert "holds a finished model" in navi_command("pretrain", corpus, "-o", model, code=2).stderr


def test_a_folder_of_tables_is_no_corpus(tables, tmp_path, navi_command):
    result = navi_command("pretrain", tables, "-o", tmp_path / "model", code=2)
    assert f"navi: {tables} is not a corpus" in result.stderr
    assert not (tmp_path / "model").exists()


def test_an_unknown_preset_names_the_known_ones(corpus, tmp_path, navi_command):
    result = navi_command("pretrain", corpus, "-o", tmp_path / "model", "--preset", "papre", code=2)
    assert "'papre'" in result.stderr
    assert "'paper'" in result.stderr


def test_a_setting_out_of_range_is_a_users_mistake(corpus, tmp_path, navi_command):
    result = navi_command("pretrain", corpus, "-o", tmp_path / "model", "--epochs", 0, code=2)
    assert result.stderr.splitlines()[-1] == "navi: epochs must be at least 1, got 0."


def test_quiet_says_nothing(corpus, settings_file, tmp_path, navi_command):
    flags = ("--config", settings_file, "--max-steps", 1, "--quiet")
    assert navi_command("pretrain", corpus, "-o", tmp_path / "model", *flags).output == ""
