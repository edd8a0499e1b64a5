"""The record of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from navi.errors import ModelError
from navi.training import PretrainConfig, TrainingResult


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    result = TrainingResult(
        path=tmp_path,
        config=PretrainConfig().to_dict(),
        corpus={"fingerprint": "abc"},
        num_steps=3,
        skipped=0,
        seconds=1.25,
        device="cpu, float32",
        train={"loss": 1 / 3},
        validation=[],
        notes=["a note"],
    )
    result.save()
    assert TrainingResult.load(tmp_path) == result


def test_a_folder_without_a_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Cannot read .*pretrain.json"):
        TrainingResult.load(tmp_path)


def test_a_record_of_another_kind_is_told(tmp_path: Path) -> None:
    (tmp_path / "pretrain.json").write_text('{"steps": 3}')
    with pytest.raises(ModelError, match=r"pretrain.json: .*steps"):
        TrainingResult.load(tmp_path)
