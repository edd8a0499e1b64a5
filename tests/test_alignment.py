"""Tests of the contrastive losses: the paper's formulas as loops, and its lemma and theorems as gradients."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import FIRST_SLOT, BatchBuilder
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW
from navi.errors import ConfigError
from navi.losses import AlignmentConfig, high_entropy_loss, info_nce, low_entropy_loss

PAPER = AlignmentConfig(low_negatives="table", same_value_negatives=True)
WIDTH = 6
EXACT = {"atol": 1e-11, "rtol": 1e-9}


class World:
    """Rows of a few tables with random embeddings: σ and e^(v) of each cell, e_a of each attribute."""

    def __init__(self, arrays, special, rows, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.arrays, self.rows = arrays, rows
        self.batch = BatchBuilder(arrays, special).build(rows, epoch=0)
        self.alignment = self.batch.alignment
        self.cells = list(walk_cells(arrays, rows))
        self.tables = sorted({cell["table"] for cell in self.cells} | set(arrays.row_table[rows].tolist()))
        size = (len(self.cells), WIDTH)
        self.sigma = torch.randn(size, generator=generator, dtype=torch.float64)
        self.values = torch.randn(size, generator=generator, dtype=torch.float64)
        num_attributes = len(arrays.attribute_offsets) - 1
        self.attributes = torch.randn(num_attributes, WIDTH, generator=generator, dtype=torch.float64)

    @property
    def low(self):
        """Places of the low segments, in the order of the alignment."""
        return self.alignment.low_segment - len(self.cells)

    @property
    def high(self):
        """Places of the high segments, in the order of the alignment."""
        return self.alignment.high_segment - len(self.cells)

    @property
    def anchors(self):
        """Embedding of each anchor."""
        return self.attributes[self.batch.rows.attribute_ids[self.alignment.anchor_slot - FIRST_SLOT]]

    def align_low(self, config, sigma=None):
        sigma = self.sigma if sigma is None else sigma
        return low_entropy_loss(sigma[self.low], self.anchors, self.alignment, config)

    def align_high(self, config, sigma=None):
        sigma = self.sigma if sigma is None else sigma
        return high_entropy_loss(sigma[self.high], self.values[self.high], self.alignment, config)

    def low_attributes(self, table):
        """A_low^t: the low-entropy attributes of a table, whether the batch's rows have them or not."""
        chosen = (self.arrays.column_table == table) & (self.arrays.column_role == ROLE_LOW)
        return set(self.arrays.column_attribute[chosen].tolist())

    def low_terms(self, config):
        """Yield (cell, positive, negatives) of every term of the low loss."""
        for cell in self.cells:
            if cell["role"] == ROLE_LOW:
                rivals = [cell["table"]] if config.low_negatives == "table" else self.tables
                attributes = set.union(*(self.low_attributes(table) for table in rivals)) - {cell["attribute"]}
                negatives = [self.attributes[attribute] for attribute in sorted(attributes)]
                yield cell, self.attributes[cell["attribute"]], negatives

    def high_terms(self, config):
        """Yield (cell, positive, negatives) of every term of the high loss."""
        for cell in self.cells:
            if cell["role"] == ROLE_HIGH:
                negatives = [
                    self.values[other["place"]]
                    for other in self.cells
                    if (other["table"], other["header"]) == (cell["table"], cell["header"])
                    and other["row"] != cell["row"]
                    and (config.same_value_negatives or other["value"] != cell["value"])
                ]
                yield cell, self.values[cell["place"]], negatives


def walk_cells(arrays, rows):
    """Yield every cell of some rows."""
    roles = dict(zip(zip(arrays.column_table, arrays.column_header, strict=True), arrays.column_role, strict=True))
    place = 0
    for row in rows:
        table = arrays.row_table[row]
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            header = arrays.segment_header[segment]
            yield {
                "place": place,
                "row": int(row),
                "table": int(table),
                "header": int(header),
                "attribute": int(arrays.segment_attribute[segment]),
                "value": int(arrays.segment_value[segment]),
                "role": int(roles[table, header]),
            }
            place += 1


def cosine(one, other):
    return float(one @ other / (one.norm() * other.norm()))


def contrast(query, positive, negatives, temperature):
    """L_NCE of the paper, sum by sum."""
    own = math.exp(cosine(query, positive) / temperature)
    return -math.log(own / (own + sum(math.exp(cosine(query, other) / temperature) for other in negatives)))


def sum_slowly(world, terms, temperature):
    """Return Σ_t of the mean of a table's terms."""
    by_table = {table: [] for table in world.tables}
    for cell, positive, negatives in terms:
        loss = contrast(world.sigma[cell["place"]], positive, negatives, temperature)
        by_table[cell["table"]].append(loss)
    return sum(sum(losses) / len(losses) for losses in by_table.values() if losses)


def descend(sigma, positive, negatives, temperature):
    """The closed form of the lemma: -∇ℓ = ((1 - p⁺) x⁺ - Σ p⁻ x⁻) / τ, for similarities that are inner products."""
    weights = [math.exp(float(sigma @ x) / temperature) for x in (positive, *negatives)]
    probabilities = [weight / sum(weights) for weight in weights]
    pulled = (1 - probabilities[0]) * positive
    for probability, negative in zip(probabilities[1:], negatives, strict=True):
        pulled = pulled - probability * negative
    return pulled / temperature


def expect_gradient(world, terms, temperature, sigma):
    """The closed forms of the theorems, carried through σ/|σ|, for every cell, averaged over its table's terms."""
    terms = list(terms)
    gradient = torch.zeros_like(sigma)
    for cell, positive, negatives in terms:
        norm = sigma[cell["place"]].norm()
        unit = sigma[cell["place"]] / norm
        force = descend(
            unit, positive / positive.norm(), [negative / negative.norm() for negative in negatives], temperature
        )
        tangent = force - (force @ unit) * unit
        of_table = sum(other["table"] == cell["table"] for other, _, _ in terms)
        gradient[cell["place"]] = -tangent / norm / of_table
    return gradient


@pytest.fixture(scope="module")
def world(make_arrays, special):
    return World(make_arrays(seed=21, num_values=5, cells=(3, 6)), special, np.arange(12))


SEEDS = st.integers(0, 2**16)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, negatives=st.sampled_from(["table", "batch"]))
def test_the_low_loss_is_the_papers_formula_cell_by_cell(make_arrays, special, seed, negatives):
    world = World(make_arrays(seed=seed, num_rows=10), special, np.arange(10), seed)
    config = AlignmentConfig(low_negatives=negatives)
    expected = sum_slowly(world, world.low_terms(config), config.temperature_low)
    assert float(world.align_low(config)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, same_value=st.booleans())
def test_the_high_loss_is_the_papers_formula_cell_by_cell(make_arrays, special, seed, same_value):
    world = World(make_arrays(seed=seed, num_rows=14, num_values=4, num_tables=2), special, np.arange(14), seed)
    config = AlignmentConfig(same_value_negatives=same_value)
    expected = sum_slowly(world, world.high_terms(config), config.temperature_high)
    assert float(world.align_high(config)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(num_negatives=st.integers(0, 6), seed=SEEDS, temperature=st.sampled_from([0.02, 0.1, 1.0]))
def test_the_gradient_of_info_nce_on_inner_products_is_the_lemma(num_negatives, seed, temperature):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(num_negatives + 2, WIDTH, generator=generator, dtype=torch.float64)
    sigma, candidates = F.normalize(drawn[:1], dim=1).requires_grad_(), F.normalize(drawn[1:], dim=1)
    everyone = torch.ones(1, num_negatives + 1, dtype=torch.bool)
    info_nce(sigma @ candidates.T / temperature, torch.tensor([0]), everyone).sum().backward()
    expected = -descend(sigma.detach()[0], candidates[0], list(candidates[1:]), temperature)
    torch.testing.assert_close(sigma.grad[0], expected, **EXACT)


@pytest.mark.parametrize(("length", "negatives"), list(product([1.0, 2.5], ["table", "batch"])))
def test_the_gradient_of_the_low_loss_is_the_first_theorem_on_the_sphere(world, length, negatives):
    config = AlignmentConfig(low_negatives=negatives)
    sigma = (length * F.normalize(world.sigma, dim=1)).requires_grad_()
    world.align_low(config, sigma).backward()
    expected = expect_gradient(world, world.low_terms(config), config.temperature_low, sigma.detach())
    assert expected.any()
    torch.testing.assert_close(sigma.grad, expected, **EXACT)


@pytest.mark.parametrize(("length", "same_value"), list(product([1.0, 2.5], [True, False])))
def test_the_gradient_of_the_high_loss_is_the_second_theorem_on_the_sphere(world, length, same_value):
    config = AlignmentConfig(same_value_negatives=same_value)
    sigma = (length * F.normalize(world.sigma, dim=1)).requires_grad_()
    world.align_high(config, sigma).backward()
    expected = expect_gradient(world, world.high_terms(config), config.temperature_high, sigma.detach())
    assert expected.any()
    torch.testing.assert_close(sigma.grad, expected, **EXACT)


def test_a_table_with_one_low_attribute_contributes_nothing_by_itself(make_arrays, special):
    arrays = make_arrays(roles=(1, 0, 0, 0, 0, 2), cells=(6, 6))
    world = World(arrays, special, np.arange(10))
    assert len(world.low) == 10
    sigma = world.sigma.clone().requires_grad_()
    loss = world.align_low(PAPER, sigma)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-12)
    torch.testing.assert_close(sigma.grad, torch.zeros_like(sigma), **EXACT)


def test_a_table_without_low_negatives_is_served_by_the_other_tables(make_arrays, special):
    world = World(make_arrays(roles=(1, 0, 0, 0, 0, 2), cells=(6, 6)), special, np.arange(10))
    assert len(world.tables) > 1
    assert float(world.align_low(AlignmentConfig(low_negatives="batch"))) > 0.1


def test_a_row_alone_in_its_table_contributes_nothing_to_the_high_loss(make_arrays, special):
    arrays = make_arrays(num_tables=1, cells=(6, 6))
    assert float(World(arrays, special, np.array([3])).align_high(PAPER)) == pytest.approx(0.0, abs=1e-12)


def test_rows_that_all_hold_the_same_value_contribute_only_where_same_values_are_negatives(make_arrays, special):
    world = World(make_arrays(num_tables=1, cells=(6, 6), num_values=1), special, np.arange(5))
    assert float(world.align_high(AlignmentConfig(same_value_negatives=False))) == pytest.approx(0.0, abs=1e-12)
    assert float(world.align_high(AlignmentConfig(same_value_negatives=True))) > 0.1


def test_tables_without_roles_have_nothing_to_align(make_arrays, special):
    world = World(make_arrays(roles=(0, 0, 0, 0, 0, 0)), special, np.arange(8))
    sigma = world.sigma.clone().requires_grad_()
    loss = world.align_low(AlignmentConfig(), sigma) + world.align_high(AlignmentConfig(), sigma)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert not sigma.grad.any()


def test_autocast_does_not_round_the_similarities(world):
    sigma = world.sigma.float()
    world.values = world.values.float()
    world.attributes = world.attributes.float()
    exact = [world.align_low(PAPER, sigma), world.align_high(PAPER, sigma)]
    with torch.autocast("cpu", torch.bfloat16):
        found = [world.align_low(PAPER, sigma), world.align_high(PAPER, sigma)]
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight": -1.0}, "weight must be 0 or more, got -1.0"),
        ({"temperature_low": 0.0}, "temperature_low must be positive, got 0.0"),
        ({"temperature_high": -0.1}, "temperature_high must be positive, got -0.1"),
        ({"low_negatives": "row"}, "low_negatives must be 'table' or 'batch', got 'row'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        AlignmentConfig(**settings)
