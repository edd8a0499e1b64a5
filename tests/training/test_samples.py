"""An early look at what a model guesses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import navi.training.samples as samples_module
from navi.batches import BatchBuilder
from navi.corpus import Corpus
from navi.model import load_backbone
from navi.training import PretrainConfig
from navi.training.samples import describe_samples, guess_tokens
from navi.training.step import Stepper
from navi.training.validation import BLIND
from navi.training.vocabulary import find_special_tokens


@pytest.fixture
def stepper(toy_corpus: Corpus, tiny_backbone: Path, make_config: Callable[..., PretrainConfig]) -> Stepper:
    torch.manual_seed(0)
    special = find_special_tokens(toy_corpus.tokenizer)
    builder = BatchBuilder(toy_corpus.arrays, special, masking=BLIND, align=False)
    return Stepper(load_backbone(tiny_backbone), builder, make_config(), num_steps=10)


def test_each_target_gets_one_token_of_the_vocabulary(toy_corpus: Corpus, stepper: Stepper) -> None:
    batch = stepper.builder.build(toy_corpus.rows_of("validation"), epoch=-1)
    guessed = guess_tokens(stepper, batch)
    assert len(guessed) == len(batch.targets.position)
    assert all(0 <= token < 200 for token in guessed)


def test_rows_are_written_with_the_guess_beside_what_was_hidden(
    toy_corpus: Corpus, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples_module, "guess_tokens", lambda stepper, batch: batch.targets.token.tolist())
    rows = toy_corpus.rows_of("validation")[:6]
    text = describe_samples(toy_corpus, stepper, stepper.builder, rows, epoch=-1)
    lines = text.splitlines()
    assert [line for line in lines if not line.startswith("    ")] == [
        f"{toy_corpus.tables[toy_corpus.arrays.row_table[row]]}, row {toy_corpus.row_number[row]}" for row in rows
    ]
    hidden = [line.strip().split("    <- ") for line in lines if "<-" in line]
    assert hidden
    for cell, remark in hidden:
        header, value = cell.split(" : ")
        assert remark in (f"header hidden, guessed: {header}", f"value hidden, guessed: {value}")
