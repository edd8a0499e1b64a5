"""The laws of training: which rows a step takes, how parts of it add up, what is skipped, what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather
from tokenizers import Tokenizer, models

from navi.backbones import find_licence
from navi.batches import REGIME_HEADER, REGIME_VALUE, BatchBuilder, SamplerConfig, SpecialTokens, shard_rows, split_rows
from navi.corpus import Corpus, PrepareConfig, prepare
from navi.corpus.arrays import SegmentArrays
from navi.errors import ModelError, TrainingError
from navi.losses import AlignmentConfig, compute_losses, measure_step
from navi.model import is_new, load_backbone
from navi.training import PretrainConfig, TrainingConfig, make_preset
from navi.training.export import MAX_BYTES, VALUES_FILE, survey_columns, survey_values
from navi.training.metrics import (
    BLIND,
    INFORMED,
    NO_TOKEN,
    Validation,
    find_majority,
)
from navi.training.processes import Processes
from navi.training.step import (
    SUMS,
    HalfCopy,
    Stepper,
    StepViews,
    make_optimizer,
    scale_rate,
    take_step,
)
from navi.training.trainer import RunPlan, Trainer

MakeConfig = Callable[..., PretrainConfig]
MakeArrays = Callable[..., SegmentArrays]
ROWS = np.arange(0, 160, 5)


# Which rows a step takes


@pytest.fixture
def arrays(make_arrays: MakeArrays) -> SegmentArrays:
    return make_arrays(num_rows=50, num_tables=4)


def make_plan(arrays: SegmentArrays, **training: Any) -> RunPlan:
    sampler = SamplerConfig(rows_per_batch=6, tables_per_batch=3)
    return RunPlan(arrays, np.arange(50), PretrainConfig(sampler=sampler, training=TrainingConfig(**training)))


def test_each_epoch_takes_every_row_once_in_an_order_of_its_own_from_any_step_on(arrays):
    plan, again = make_plan(arrays, epochs=3), make_plan(arrays, epochs=3)
    length, orders = plan.epoch_steps, []
    for epoch in range(3):
        steps, rest = plan.list_steps(epoch, epoch * length), again.list_steps(epoch, epoch * length + 3)
        assert len(steps) == length
        assert sorted(np.concatenate(steps)) == list(range(50))
        assert all(np.array_equal(one, other) for one, other in zip(steps[3:], rest, strict=True))
        orders.append(np.concatenate(steps).tolist())
    assert orders[0] != orders[1] != orders[2]
    assert plan.boundaries == [0, length, 2 * length, 3 * length]
    assert [plan.find_epoch(step) for step in (0, length - 1, length)] == [0, 0, 1]


def test_a_limit_of_steps_cuts_the_run(arrays):
    plan = make_plan(arrays, max_steps=4)
    assert plan.num_steps == len(plan.list_steps(0, 0)) == 4
    assert plan.boundaries == [0, 4]
    assert make_plan(arrays, max_steps=10_000).num_steps == make_plan(arrays).num_steps
    with pytest.raises(TrainingError, match="There are no training rows"):
        RunPlan(arrays, np.arange(0), PretrainConfig())


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 200))
def test_a_step_is_shared_and_split_between_tables_where_it_can_be(tables, count, max_tokens):
    row_table, row_tokens = np.array(tables, np.int32), np.arange(len(tables)) + 5
    rows = np.arange(len(tables))
    shares = shard_rows(rows, row_table, row_tokens, count)
    assert len(shares) == count
    assert sorted(np.concatenate(shares)) == rows.tolist()
    if len(set(tables)) >= count:
        assert sum(len(set(row_table[share])) for share in shares) == len(set(tables))
    assert sum(len(share) > 0 for share in shares) == min(count, len(tables))
    parts = split_rows(rows, row_table, row_tokens, max_tokens)
    assert sorted(np.concatenate(parts)) == rows.tolist()
    assert all(len(part) == 1 or row_tokens[part].sum() <= max_tokens for part in parts)
    if all(row_tokens[row_table == table].sum() <= max_tokens for table in tables):
        assert sum(len(set(row_table[part])) for part in parts) == len(set(tables))


# One step


@pytest.fixture
def make_stepper(toy_corpus: Corpus, tiny_backbone: Path, make_config: MakeConfig) -> Callable[..., Stepper]:
    """A maker of steppers that start from the same weights, by default without dropout."""

    def make(dropout: float = 0.0, masking: Any = None, with_views: bool = False, **sections: object) -> Stepper:
        config = make_config(alignment={"low_negatives": "table"}, model={"dropout": dropout}, **sections)
        torch.manual_seed(0)
        special = SpecialTokens.of(toy_corpus.tokenizer)
        builder = BatchBuilder(toy_corpus.arrays, special, masking=masking or config.masking, align=masking is None)
        model = load_backbone(tiny_backbone, **config.model.as_settings())
        views = StepViews(toy_corpus, model, config, torch.device("cpu")) if with_views else None
        return Stepper(model, builder, config, views=views)

    return make


MakeStepper = Callable[..., Stepper]


def read_gradients(stepper: Stepper) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in stepper.model.named_parameters() if p.grad is not None}


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: name + text)


def test_a_step_taken_in_parts_has_the_losses_and_gradients_of_the_whole(make_stepper):
    stepper = make_stepper()
    whole = stepper.build(ROWS, epoch=0, max_tokens=None)
    sums = stepper.accumulate(whole, step=0)
    gradients = read_gradients(stepper)
    parts = stepper.build(ROWS, epoch=0, max_tokens=whole.part_tokens[0] // 2)
    assert len(parts.batches) > 1
    # Sums are kept in float64, but losses are of float32.
    torch.testing.assert_close(stepper.accumulate(parts, step=0), sums, rtol=1e-6, atol=1e-6)
    assert_close(read_gradients(stepper), gradients)


def test_the_sums_of_a_step_count_its_rows_tokens_and_targets(make_stepper):
    stepper = make_stepper()
    made = stepper.build(ROWS, epoch=0, max_tokens=100)
    assert len(made.batches) > 1
    found = dict(zip(SUMS, stepper.accumulate(made, step=0).tolist(), strict=True))
    kinds = torch.cat([batch.targets.kind for batch in made.batches])
    assert (made.num_rows, made.num_tokens) == (len(ROWS), 2 * sum(made.part_tokens))
    assert found["header_targets"] == (kinds == REGIME_HEADER).sum()
    assert found["value_targets"] == (kinds == REGIME_VALUE).sum()
    added = 0.0125 * (found["low"] + found["high"]) + 0.1 * found["bag_of_words"]
    assert found["loss"] == pytest.approx(found["masked"] + added, rel=1e-5)


def test_a_step_moves_the_weights_and_a_large_gradient_is_clipped(make_stepper):
    stepper = make_stepper(training={"clip_norm": 0.01})
    before = stepper.model.layers[0].output.dense.weight.detach().clone()
    sums, finite = stepper.update(stepper.accumulate(stepper.build(ROWS, 0, None), step=0), scale=1.0)
    assert bool(finite)
    assert sums[SUMS.index("norm")] > 0.01
    assert not torch.equal(stepper.model.layers[0].output.dense.weight, before)
    squares = sum(float((p.grad**2).sum()) for p in stepper.model.parameters() if p.grad is not None)
    assert squares**0.5 == pytest.approx(0.01, rel=1e-3)


def test_dropout_depends_on_the_place_in_the_run_alone(make_stepper):
    stepper = make_stepper(dropout=0.1)
    made = stepper.build(ROWS, 0, None)
    first, _, again = stepper.accumulate(made, 3), torch.rand(1), stepper.accumulate(made, 3)
    assert torch.equal(first, again)
    assert not torch.equal(first, stepper.accumulate(made, 4))


def test_batches_made_on_the_device_learn_what_those_of_the_host_do(make_stepper):
    plain, recorded = make_stepper(), make_stepper(training={"graphs": True})
    recorded.prepare_graphs([ROWS, ROWS[:10]])
    made = recorded.build(ROWS, epoch=3, max_tokens=None)
    assert made.batches == []
    sums = plain.accumulate(plain.build(ROWS, epoch=3, max_tokens=None), step=0)
    torch.testing.assert_close(recorded.accumulate(made, step=0), sums, rtol=1e-5, atol=1e-5)
    assert_close(read_gradients(recorded), read_gradients(plain))


def test_a_copy_in_half_precision_computes_for_the_model(make_arrays, special, tiny_backbone):
    def learn(model: Any) -> None:
        losses = compute_losses(model, model(batch.rows), batch, AlignmentConfig(), measure_step([batch]))
        losses.loss.backward()

    batch = BatchBuilder(make_arrays(num_rows=8, num_tables=2), special).build(np.arange(8), epoch=0)
    model, other = load_backbone(tiny_backbone).eval(), load_backbone(tiny_backbone).eval()
    other.load_state_dict(model.state_dict())
    same = HalfCopy(other, torch.float32)
    same.pull()
    learn(same.model)
    same.push()
    learn(model)
    for (name, own), (_, copied) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(copied.grad, own.grad, msg=name)
    half, weight = HalfCopy(model, torch.bfloat16), "layers.0.output.dense.weight"
    with torch.no_grad():
        model.attribute_scale.fill_(3.0)
    model.zero_grad()
    for _ in range(2):  # the gradients of several parts add up
        half.pull()
        learn(half.model)
        half.push()
    once = half.model.get_parameter(weight).grad.float()
    torch.testing.assert_close(model.get_parameter(weight).grad, 2 * once)
    assert half.model.attribute_scale.item() == 3.0
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert half.model.head.decoder.weight is half.model.embeddings.word_embeddings.weight


# The optimiser


def test_cold_parameters_have_their_own_rate_and_only_matrices_decay(tiny_backbone):
    model = load_backbone(tiny_backbone)
    config = TrainingConfig(learning_rate=1e-5, new_learning_rate=1e-3, weight_decay=0.1)
    optimizer = make_optimizer(model, config, lambda name: is_new(name, model.config))
    found = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        group = found[id(parameter)]
        assert group["max_lr"] == (1e-3 if is_new(name, model.config) else 1e-5), name
        decays = not ("LayerNorm" in name or "norm" in name or name.endswith(("bias", "unknown_attribute", "scale")))
        assert group["weight_decay"] == (0.1 if decays else 0.0), name
    take_step(optimizer, 0.25, torch.tensor(True))
    assert {group["lr"] for group in optimizer.param_groups} == {0.25e-5, 0.25e-3}


@given(st.integers(1, 300), st.floats(0, 1))
def test_the_rate_rises_in_the_set_share_of_the_steps_and_falls_to_zero_after_them(num_steps, share):
    rates = np.array([scale_rate(step, num_steps, share) for step in range(num_steps + 1)])
    highest = int(rates.argmax())
    assert rates[highest] == 1.0
    assert rates[-1] == 0.0 < rates[:-1].min()
    assert abs(highest - share * num_steps) <= 1.5
    for slope in (np.diff(rates[: highest + 1]), np.diff(rates[highest + 1 :])):  # in straight lines
        assert np.ptp(slope) < 1e-9 if len(slope) else True
    assert (np.diff(rates[: highest + 1]) > 0).all()
    assert (np.diff(rates[highest:]) <= 0).all()


def test_a_step_that_is_not_finite_leaves_weights_and_optimiser_alone():
    model = torch.nn.Linear(3, 2)
    optimizer = make_optimizer(model, TrainingConfig(learning_rate=0.1), lambda name: False)
    model(torch.ones(1, 3)).sum().backward()
    take_step(optimizer, 1.0, torch.tensor(True))
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    take_step(optimizer, 1.0, torch.tensor(False))
    assert all(torch.equal(old, new) for old, new in zip(weights, model.parameters(), strict=True))
    assert all(torch.equal(m, s["exp_avg"]) for m, s in zip(moments, optimizer.state.values(), strict=True))
    assert {float(state["step"]) for state in optimizer.state.values()} == {1.0}
    model.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    take_step(optimizer, 1.0, torch.tensor(True))
    assert not torch.equal(model.weight, weights[0])


# Validation and the majority baseline


def make_validation(corpus: Corpus, config: PretrainConfig) -> Validation:
    return Validation(corpus, SpecialTokens.of(corpus.tokenizer), config)


def test_the_measures_are_the_same_each_time_however_rows_are_batched(toy_corpus, make_config, make_stepper):
    stepper, validation = make_stepper(), make_validation(toy_corpus, make_config())
    first = validation(stepper)
    torch.manual_seed(99)
    assert validation(stepper) == first
    assert set(first) == {"masked_loss", "header_accuracy_informed", "header_accuracy_blind", "value_accuracy"}
    for rows_per_batch in (3, 500):
        other = make_validation(toy_corpus, make_config(sampler={"rows_per_batch": rows_per_batch}))(stepper)
        assert other == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize(("masking", "hidden"), [(INFORMED, False), (BLIND, True)])
def test_blind_hides_every_attribute_of_a_masked_header_and_informed_none(toy_corpus, make_stepper, masking, hidden):
    batch = make_stepper(masking=masking).builder.build(toy_corpus.rows_of("validation"), epoch=-1)
    headers = batch.targets.position[batch.targets.kind == REGIME_HEADER]
    assert len(headers)
    assert ((batch.rows.token_slot[headers] == 1) == hidden).all()


def test_a_model_that_knows_everything_is_always_right(toy_corpus, make_config, make_stepper, monkeypatch):
    stepper, validation = make_stepper(), make_validation(toy_corpus, make_config())
    build = BatchBuilder.build
    truth: list[torch.Tensor] = []

    def note(self: BatchBuilder, *arguments: Any, **options: Any) -> Any:
        batch = build(self, *arguments, **options)
        truth[:] = [batch.targets.token]
        return batch

    def tell(output: Any, position: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(truth[0], 200).float() * 50

    monkeypatch.setattr(BatchBuilder, "build", note)
    monkeypatch.setattr(stepper.model, "predict_tokens", tell)
    found = validation(stepper)
    assert found["header_accuracy_informed"] == found["header_accuracy_blind"] == found["value_accuracy"] == 1.0
    assert found["masked_loss"] == pytest.approx(0.0, abs=1e-6)


def test_the_majority_is_what_a_counter_finds(make_arrays):
    arrays = make_arrays(num_rows=60, num_values=4)
    rows = np.arange(0, 60, 2)
    headers: Counter[int] = Counter()
    columns: dict[tuple[int, int], Counter[int]] = {}
    for row in rows:
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            header, value = int(arrays.segment_header[segment]), int(arrays.segment_value[segment])
            headers[header] += 1
            columns.setdefault((int(arrays.row_table[row]), header), Counter())[value] += 1
    header, value_K = find_majority(arrays, rows)
    assert headers[header] == max(headers.values())
    for place, column in enumerate(zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True)):
        counted = columns.get(column)
        if counted is None:
            assert value_K[place] == NO_TOKEN
        else:
            assert counted[int(value_K[place])] == max(counted.values())


# What is known of the domain


def list_train_cells(corpus: Corpus) -> list[tuple[int, int, int]]:
    """Return (table, header, segment) of each training cell, the slow and certain way."""
    arrays = corpus.arrays
    return [
        (int(arrays.row_table[row]), int(arrays.segment_header[segment]), int(segment))
        for row in corpus.rows_of("train")
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
    ]


def test_values_come_with_their_counts_most_frequent_first(toy_corpus, monkeypatch, tmp_path):
    found = survey_values(toy_corpus)
    values = [line for line in found.to_pylist() if line["attribute"] == "genre"]
    texts, arrays = toy_corpus.values.to_pylist(), toy_corpus.arrays
    attribute = toy_corpus.attributes.to_pylist().index("genre")
    segments = [s for *_, s in list_train_cells(toy_corpus) if arrays.segment_attribute[s] == attribute]
    counted = Counter(texts[arrays.segment_value[segment]] for segment in segments)
    assert {line["value"]: line["count"] for line in values} == counted
    assert [line["count"] for line in values] == sorted((line["count"] for line in values), reverse=True)
    monkeypatch.setattr("navi.training.export.MAX_DISTINCT", 3)
    listed = set(survey_values(toy_corpus)["attribute"].to_pylist())
    assert "genre" in listed
    assert "title" not in listed


def test_what_stands_beside_the_weights_is_bounded(tmp_path, tiny_backbone, make_stepper, write_tables):
    draw = np.random.default_rng(0)
    tables = {
        f"a table with a rather long name {number:04}": [
            {f"header {number} {place} {'x' * 20}": f"{draw.integers(1900)} {'y' * 300}" for place in range(80)}
            for _ in range(10)
        ]
        for number in range(6)
    }
    config = PrepareConfig(backbone=str(tiny_backbone), max_unknown_share=None, max_tokens=100_000)
    corpus = prepare([write_tables(tmp_path / "tables", tables)], tmp_path / "corpus", config)
    stepper, limits = make_stepper(), dict.fromkeys(MAX_BYTES, 50_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("navi.training.export.MAX_BYTES", limits)
        feather.write_feather(survey_values(corpus), tmp_path / VALUES_FILE, compression="uncompressed")
        survey_columns(stepper.model, SpecialTokens.of(corpus.tokenizer), corpus).save(tmp_path)
    sizes = {name: (tmp_path / name).stat().st_size for name in limits}
    assert all(20_000 < size < 60_000 for size in sizes.values()), sizes
    assert sum(MAX_BYTES.values()) <= 17 << 20  # of 20 MB; tokenizer and card take less than 2


def test_the_licence_is_known_or_named_by_the_backbones_card(tmp_path):
    assert find_licence("minilm") == "apache-2.0"
    assert find_licence(str(tmp_path)) is None
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# A backbone\n")
    assert find_licence(str(tmp_path)) == "mit"


# Columns read as texts


def test_steps_bring_the_views_of_columns_together_and_add_to_the_loss(make_stepper):
    stepper, found = make_stepper(with_views=True, training={"learning_rate": 2e-3}), []
    made = stepper.build(ROWS, epoch=0, max_tokens=None, step=0)
    for step in range(15):
        sums, finite = stepper.update(stepper.accumulate(made, step), 1.0 - step / 15)
        assert bool(finite)
        found.append(dict(zip(SUMS, sums.tolist(), strict=True)))
    assert found[-1]["views"] < 0.95 * found[0]["views"]
    assert found[0]["keeping"] == pytest.approx(0.0, abs=1e-5)  # nothing has moved yet
    first, plain = found[0], make_stepper()
    rows = plain.accumulate(plain.build(ROWS, epoch=0, max_tokens=None), step=0)[SUMS.index("loss")]
    assert first["loss"] == pytest.approx(float(rows) + 0.5 * first["views"] + 2 * first["keeping"], rel=1e-5)


def test_the_views_of_a_step_follow_from_the_seed_and_the_step(toy_corpus, make_config, make_stepper):
    def make(seed: int = 0) -> StepViews:
        config = make_config(training={"seed": seed}, views={"columns_per_step": 7, "rows_between": 40})
        return StepViews(toy_corpus, model, config, torch.device("cpu"))

    def draw(views: StepViews, step: int) -> list[list[int]]:
        batch = views.draw(step)
        assert batch is not None
        assert (len(batch.meaning), len(batch.target), len(batch.texts.starts) - 1) == (7, 7, 21)
        return [batch.texts.token_ids.tolist(), batch.meaning.tolist(), batch.target.flatten().tolist()]

    model = make_stepper().model
    views = make()
    assert model.training  # reading columns before training leaves dropout on
    assert model.layers[0].training
    assert draw(views, 2) == draw(make(), 2)
    assert draw(views, 2) not in (draw(views, 4), draw(make(seed=1), 2))
    assert [views.draw(step) is None for step in range(5)] == [False, True, False, True, False]  # of 16 rows each


@pytest.mark.parametrize(("preset", "learned"), [("default", True), ("paper", False)])
def test_the_paper_learns_no_views(toy_corpus, tiny_backbone, tmp_path, preset, learned):
    config = PretrainConfig.from_dict({"backbone": str(tiny_backbone)}, base=make_preset(preset))
    stepper = Trainer(toy_corpus, tmp_path, config, Processes()).stepper
    made = stepper.build(ROWS, epoch=0, max_tokens=None, step=0)
    assert (made.views is not None) == learned


# The vocabulary


def make_tokenizer(*words: str) -> Tokenizer:
    return Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))


def test_special_tokens_are_found_by_name():
    tokenizer = make_tokenizer("[PAD]", "[UNK]", "[unused7]", "[MASK]", ":", "[SEP]", "[CLS]", "film", "##s", "[x]")
    special = SpecialTokens.of(tokenizer)
    assert (special.mask, special.colon, special.sep, special.cls) == (3, 4, 5, 6)
    assert special.regular.tolist() == [4, 7, 8, 9]
    with pytest.raises(ModelError, match=r"has no \[CLS\], \[MASK\]"):
        SpecialTokens.of(make_tokenizer("[UNK]", "[SEP]", ":"))


def test_half_precision_gives_nearly_the_same_loss(make_stepper):
    full, half = make_stepper(), make_stepper(training={"precision": "bfloat16"})
    made = full.build(ROWS, 0, None)
    one, other = full.accumulate(made, 0)[0], half.accumulate(made, 0)[0]
    assert one != other
    torch.testing.assert_close(one, other, rtol=0.02, atol=0.0)
