"""Measures on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import navi.training.validation as validation_module
from navi.batches import BatchBuilder
from navi.corpus import Corpus
from navi.model import load_backbone
from navi.training import PretrainConfig
from navi.training.step import Stepper
from navi.training.validation import Validation, choose_rows
from navi.training.vocabulary import find_special_tokens

MakeConfig = Callable[..., PretrainConfig]


@pytest.fixture
def stepper(toy_corpus: Corpus, tiny_backbone: Path, make_config: MakeConfig) -> Stepper:
    torch.manual_seed(0)
    builder = BatchBuilder(toy_corpus.arrays, find_special_tokens(toy_corpus.tokenizer))
    return Stepper(load_backbone(tiny_backbone), builder, make_config(), num_steps=10)


def make_validation(corpus: Corpus, config: PretrainConfig) -> Validation:
    return Validation(corpus, find_special_tokens(corpus.tokenizer), config)


def test_the_measures_are_the_same_each_time_whatever_the_random_state(
    toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper
) -> None:
    validation = make_validation(toy_corpus, make_config())
    first = validation(stepper)
    torch.manual_seed(99)
    assert validation(stepper) == first
    assert set(first) == {"masked_loss", "header_accuracy_informed", "header_accuracy_blind", "value_accuracy"}


def test_the_measures_do_not_depend_on_how_rows_are_batched(
    toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper
) -> None:
    small = make_validation(toy_corpus, make_config(sampler={"rows_per_batch": 3}))(stepper)
    large = make_validation(toy_corpus, make_config(sampler={"rows_per_batch": 500}))(stepper)
    assert small == pytest.approx(large, rel=1e-5)


def test_a_model_that_knows_everything_is_always_right(
    toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(model, output, batch, alignment, size):
        losses = compute_losses(model, output, batch, alignment, size)
        kind = batch.targets.kind
        object.__setattr__(losses, "header_hits", (kind == 0).sum())
        object.__setattr__(losses, "value_hits", (kind == 1).sum())
        return losses

    compute_losses = validation_module.compute_losses
    monkeypatch.setattr(validation_module, "compute_losses", compute)
    found = make_validation(toy_corpus, make_config())(stepper)
    assert found["header_accuracy_informed"] == found["header_accuracy_blind"] == found["value_accuracy"] == 1.0


def test_blind_hides_every_attribute_of_a_masked_header_and_informed_none(
    toy_corpus: Corpus, make_config: MakeConfig
) -> None:
    validation = make_validation(toy_corpus, make_config())
    for name, hidden in (("informed", False), ("blind", True)):
        batch = validation._builders[name].build(validation.rows, epoch=-1)
        headers = batch.targets.position[batch.targets.kind == 0]
        assert ((batch.rows.token_slot[headers] == 1) == hidden).all()


def test_running_out_of_memory_halves_the_batch(
    toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation = make_validation(toy_corpus, make_config())
    expected, measure = validation(stepper), validation_module.measure_batch

    def run_out(stepper, batch):
        if len(batch.row_ids) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return measure(stepper, batch)

    monkeypatch.setattr(validation_module, "measure_batch", run_out)
    assert validation(stepper) == pytest.approx(expected, rel=1e-5)


def test_another_error_is_not_swallowed(
    toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stepper, batch):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(validation_module, "measure_batch", fail)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        make_validation(toy_corpus, make_config())(stepper)


def test_without_rows_there_is_nothing_to_say(toy_corpus: Corpus, make_config: MakeConfig, stepper: Stepper) -> None:
    validation = make_validation(toy_corpus, make_config(training={"validate_rows": 0}))
    assert validation(stepper) == {}
    assert validation.describe_samples(stepper) == ""


def test_the_same_rows_are_chosen_each_time_and_no_more_than_asked_for() -> None:
    rows = np.arange(100, 200)
    chosen = choose_rows(rows, 10, seed=0)
    assert len(set(chosen.tolist())) == 10
    assert np.array_equal(chosen, choose_rows(rows, 10, seed=0))
    assert np.array_equal(chosen, np.sort(chosen))
    assert set(chosen.tolist()) <= set(rows.tolist())
    assert not np.array_equal(chosen, choose_rows(rows, 10, seed=1))


def test_few_rows_are_all_chosen() -> None:
    assert choose_rows(np.array([4, 7]), 10, seed=0).tolist() == [4, 7]


def test_the_guesses_are_measured_on_the_same_rows(toy_corpus: Corpus, make_config: MakeConfig) -> None:
    guesses = make_validation(toy_corpus, make_config()).measure_guesses()
    assert 0.0 < guesses["most_frequent_header"] < 0.7
    assert 0.0 < guesses["most_frequent_value"] < 0.7
