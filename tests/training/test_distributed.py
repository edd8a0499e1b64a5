"""Several processes that train together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from navi.corpus import Corpus
from navi.training import PretrainConfig

SCRIPT = """
import json, sys
from navi.training import PretrainConfig, pretrain
corpus, out, config = sys.argv[1:4]
pretrain(corpus, out, PretrainConfig.from_dict(json.loads(config)), resume="resume" in sys.argv)
"""


def run_processes(tmp_path: Path, corpus: Corpus, out: Path, config: PretrainConfig, *options: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", str(script)]
    arguments = [str(corpus.path), str(out), json.dumps(config.to_dict()), *options]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launch, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
def test_two_processes_share_the_rows_and_end_with_one_model(
    toy_corpus: Corpus, make_config: Callable[..., PretrainConfig], tmp_path: Path
) -> None:
    config = make_config(sampler={"rows_per_batch": 8}, model={"attribute_gate": False})
    run_processes(tmp_path, toy_corpus, tmp_path / "model", config)
    lines = [json.loads(line) for line in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["rows"] for line in lines if line["kind"] == "train") == 2 * len(toy_corpus.rows_of("train"))
    assert next(line["step"] for line in lines if line["kind"] == "validation") == 0
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
    run_processes(tmp_path, toy_corpus, tmp_path / "model", config, "resume")
