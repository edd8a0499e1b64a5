"""One step: parts that add up to the whole, and updates that are skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder
from navi.corpus import Corpus
from navi.model import load_backbone
from navi.training import PretrainConfig
from navi.training.step import SUMS, Stepper, choose_dtype
from navi.training.vocabulary import find_special_tokens

MakeConfig = Callable[..., PretrainConfig]
ROWS = np.arange(0, 160, 5)


@pytest.fixture
def make_stepper(toy_corpus: Corpus, calm_backbone: Path, make_config: MakeConfig) -> Callable[..., Stepper]:
    """A maker of steppers that start from the same weights, without dropout."""

    def make(**sections: object) -> Stepper:
        config = make_config(alignment={"low_negatives": "table"}, **sections)
        torch.manual_seed(0)
        builder = BatchBuilder(toy_corpus.arrays, find_special_tokens(toy_corpus.tokenizer), masking=config.masking)
        return Stepper(load_backbone(calm_backbone), builder, config, num_steps=10)

    return make


def read_gradients(stepper: Stepper) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in stepper.model.named_parameters() if p.grad is not None}


def test_a_step_taken_in_parts_has_the_losses_and_gradients_of_the_whole(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper()
    whole = stepper.build([ROWS], epoch=0, max_tokens=None)
    sums = stepper.accumulate(whole, step=0)
    gradients = read_gradients(stepper)
    parts = stepper.build([ROWS], epoch=0, max_tokens=whole.batches[0].num_tokens // 2)
    assert len(parts.batches) > 1
    # Sums are kept in float64, but losses are of float32.
    torch.testing.assert_close(stepper.accumulate(parts, step=0), sums, rtol=1e-6, atol=1e-6)
    again = read_gradients(stepper)
    for name, gradient in gradients.items():
        torch.testing.assert_close(again[name], gradient, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: name + text)


def test_the_sums_of_a_step_count_its_rows_tokens_and_targets(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper()
    made = stepper.build([ROWS[:10], ROWS[10:]], epoch=0, max_tokens=None)
    found = dict(zip(SUMS, stepper.accumulate(made, step=0).tolist(), strict=True))
    kinds = torch.cat([batch.targets.kind for batch in made.batches])
    assert (found["rows"], found["tokens"]) == (len(ROWS), made.num_tokens)
    assert (found["header_targets"], found["value_targets"]) == ((kinds == 0).sum(), (kinds == 1).sum())
    added = 0.0125 * (found["low"] + found["high"]) + 0.1 * found["told_words"]
    assert found["loss"] == pytest.approx(found["masked"] + added, rel=1e-5)


def test_a_step_moves_the_weights_and_reports_the_norm(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper()
    before = stepper.model.layers[0].output.dense.weight.detach().clone()
    outcome = stepper.update(stepper.accumulate(stepper.build([ROWS], 0, None), step=0), step=0)
    assert bool(outcome.finite)
    assert outcome.sums[SUMS.index("norm")] > 0
    assert not torch.equal(stepper.model.layers[0].output.dense.weight, before)


def test_a_gradient_that_is_not_finite_moves_nothing(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper()
    before = [parameter.detach().clone() for parameter in stepper.model.parameters()]
    sums = stepper.accumulate(stepper.build([ROWS], 0, None), step=0)
    stepper.model.layers[0].output.dense.weight.grad[0, 0] = torch.nan
    outcome = stepper.update(sums, step=0)
    assert not bool(outcome.finite)
    assert all(torch.equal(old, new) for old, new in zip(before, stepper.model.parameters(), strict=True))


def test_a_large_gradient_is_clipped(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper(training={"clip_norm": 0.01})
    stepper.update(stepper.accumulate(stepper.build([ROWS], 0, None), step=0), step=0)
    squares = sum(float((p.grad**2).sum()) for p in stepper.model.parameters() if p.grad is not None)
    assert squares**0.5 == pytest.approx(0.01, rel=1e-3)


def test_dropout_depends_on_the_place_in_the_run_alone(
    make_stepper: Callable[..., Stepper], toy_corpus: Corpus, tiny_backbone: Path, make_config: MakeConfig
) -> None:
    builder = BatchBuilder(toy_corpus.arrays, find_special_tokens(toy_corpus.tokenizer))
    torch.manual_seed(0)
    stepper = Stepper(load_backbone(tiny_backbone), builder, make_config(), num_steps=10)
    made = stepper.build([ROWS], 0, None)
    first, _, again = stepper.accumulate(made, 3), torch.rand(1), stepper.accumulate(made, 3)
    assert torch.equal(first, again)
    assert not torch.equal(first, stepper.accumulate(made, 4))


@pytest.mark.parametrize(
    ("precision", "expected"),
    [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)],
)
def test_a_precision_means_an_arithmetic_on_the_cpu(precision: str, expected: torch.dtype) -> None:
    assert choose_dtype(precision, torch.device("cpu")) == expected


def test_half_precision_gives_nearly_the_same_loss(make_stepper: Callable[..., Stepper]) -> None:
    full, half = make_stepper(), make_stepper(training={"precision": "bfloat16"})
    made = full.build([ROWS], 0, None)
    one, other = full.accumulate(made, 0)[0], half.accumulate(made, 0)[0]
    assert one != other
    torch.testing.assert_close(one, other, rtol=0.02, atol=0.0)


def test_batches_made_on_the_device_learn_what_those_of_the_host_do(make_stepper: Callable[..., Stepper]) -> None:
    plain, recorded = make_stepper(), make_stepper(training={"graphs": True})
    recorded.foresee([[ROWS], [ROWS[:10]]])
    made = recorded.build([ROWS], epoch=3, max_tokens=None)
    assert made.batches == []
    sums = plain.accumulate(plain.build([ROWS], epoch=3, max_tokens=None), step=0)
    torch.testing.assert_close(recorded.accumulate(made, step=0), sums, rtol=1e-5, atol=1e-5)
    found = read_gradients(recorded)
    for name, gradient in read_gradients(plain).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: name + text)


def test_a_batch_that_fits_no_room_is_made_on_the_host(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper(training={"graphs": True})
    stepper.foresee([[ROWS[:2]]])
    assert len(stepper.build([ROWS], epoch=0, max_tokens=None).batches) == 1


def test_parts_of_a_step_are_made_on_the_host(make_stepper: Callable[..., Stepper]) -> None:
    stepper = make_stepper(training={"graphs": True})
    stepper.foresee([[ROWS]])
    assert len(stepper.build([ROWS[:10], ROWS[10:]], epoch=0, max_tokens=None).batches) == 2
    assert len(stepper.build([ROWS], epoch=0, max_tokens=60).batches) > 1
