"""The model card."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from navi.training import PretrainConfig, TrainingResult
from navi.training.card import find_licence, make_card, write_card

MEASURES = {"header_accuracy_informed": 0.1, "header_accuracy_blind": 0.2, "value_accuracy": 0.3}


@pytest.fixture
def result(tiny_backbone: Path, tmp_path: Path) -> TrainingResult:
    return TrainingResult(
        path=tmp_path,
        config=PretrainConfig(backbone=str(tiny_backbone)).to_dict(),
        corpus={"fingerprint": "abc123", "tables": 4, "rows": 1600, "train_rows": 1300},
        num_steps=18,
        skipped=1,
        seconds=90.0,
        device="cpu, float32",
        train={"loss": 2.5},
        validation=[
            {"masked_loss": 5.0, **MEASURES, "most_frequent_header": 0.25, "most_frequent_value": 0.125},
            {"masked_loss": 1.5, **{name: value + 0.5 for name, value in MEASURES.items()}},
        ],
        notes=[],
    )


def test_the_card_says_what_how_and_from_what(result: TrainingResult) -> None:
    card = make_card(result)
    assert "fingerprint `abc123`" in card
    assert "1,300 training rows of 1,600 in 4 tables" in card
    assert "18 steps, 90 s on cpu, float32; 1 steps skipped" in card
    assert "| masked loss | 5.0000 | 1.5000 |  |" in card
    assert "| header accuracy blind | 0.2000 | 0.7000 | 0.2500 |" in card
    assert "| value accuracy | 0.3000 | 0.8000 | 0.1250 |" in card
    assert "- training: epochs 2" in card
    assert 'navi.Navi.from_pretrained("path/of/this/folder")' in card


def test_the_card_names_no_path_of_the_machine(result: TrainingResult, tiny_backbone: Path) -> None:
    assert str(tiny_backbone.parent) not in make_card(result)


def test_without_validation_the_card_gives_the_training_loss(result: TrainingResult) -> None:
    assert "Last training loss: 2.5000. There were no validation rows." in make_card(replace(result, validation=[]))


def test_the_card_is_written_beside_the_weights(result: TrainingResult) -> None:
    write_card(result)
    assert (result.path / "README.md").read_text().startswith("---\nlibrary_name: navi-tables\n")


def test_the_licence_of_the_default_backbone_is_known() -> None:
    assert find_licence("minilm") == "apache-2.0"


def test_the_licence_of_a_folder_is_the_one_its_card_names(tiny_backbone: Path, tmp_path: Path) -> None:
    assert find_licence(str(tiny_backbone)) is None
    folder = shutil.copytree(tiny_backbone, tmp_path / "bert")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A backbone\n")
    assert find_licence(str(folder)) == "mit"
