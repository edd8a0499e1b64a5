from __future__ import annotations

import json

from navi_paper.page.runs import list_runs, read_settings


def write(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)


def test_settings_of_navi_and_of_baselines_are_found(tmp_path):
    write(tmp_path / "a", "pretrain.json", json.dumps({"config": {"masking": {"header_share": 0.4}}}))
    write(tmp_path / "b", "training.json", json.dumps({"identity": {"sampler": {"rows_per_batch": 32}}}))
    assert read_settings(tmp_path / "a") == {"masking.header_share": 0.4}
    assert read_settings(tmp_path / "b") == {"sampler.rows_per_batch": 32}
    assert read_settings(tmp_path / "c") == {}


def test_the_lowest_seed_stands_for_a_model(tmp_path):
    for seed in (10, 9):
        write(tmp_path / f"navi-{seed}", "metrics.jsonl", json.dumps({"kind": "train", "step": seed, "loss": 1.0}))
    runs = list_runs(tmp_path, ("navi", "bert"))
    assert {model: run.seed for model, run in runs.items()} == {"navi": 9}
    assert runs["navi"].follow("train", "loss") == ((9, 1.0),)


def test_a_model_is_not_taken_for_another_whose_name_begins_alike(tmp_path):
    write(tmp_path / "navi-paper-0", "metrics.jsonl", json.dumps({"kind": "train", "step": 1, "loss": 1.0}))
    assert list(list_runs(tmp_path, ("navi", "navi-paper"))) == ["navi-paper"]
