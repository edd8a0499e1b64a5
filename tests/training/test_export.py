"""What a finished run leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers.utils import logging

from navi.corpus import Corpus
from navi.model import NaviModel, load_backbone
from navi.training import PretrainConfig, TrainingResult
from navi.training.export import export_run


@pytest.fixture
def result(tiny_backbone: Path, tmp_path: Path) -> TrainingResult:
    return TrainingResult(
        path=tmp_path,
        config=PretrainConfig(backbone=str(tiny_backbone)).to_dict(),
        corpus={"fingerprint": "abc", "tables": 4, "rows": 160, "train_rows": 130},
        num_steps=1,
        skipped=0,
        seconds=1.0,
        device="cpu, float32",
        train={"loss": 2.5},
        validation=[],
        notes=[],
    )


def test_nothing_is_drawn_on_the_screen_and_the_setting_comes_back(
    tiny_backbone: Path, toy_corpus: Corpus, result: TrainingResult, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = logging.is_progress_bar_enabled()
    export_run(load_backbone(tiny_backbone), toy_corpus, result)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == shown


def test_the_record_comes_last(
    tiny_backbone: Path, toy_corpus: Corpus, result: TrainingResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(result: TrainingResult) -> None:
        raise OSError("disk")

    monkeypatch.setattr("navi.training.export.write_card", fail)
    with pytest.raises(OSError, match="disk"):
        export_run(load_backbone(tiny_backbone), toy_corpus, result)
    assert not (result.path / "pretrain.json").exists()


def test_weights_are_safetensors_alone(tiny_backbone: Path, toy_corpus: Corpus, result: TrainingResult) -> None:
    export_run(load_backbone(tiny_backbone), toy_corpus, result)
    assert not list(result.path.glob("*.bin"))
    assert NaviModel.from_pretrained(result.path).config.model_type == "navi"
