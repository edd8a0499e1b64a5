"""Tests of the contrastive losses: the paper's formulas as loops, and its lemma and theorems as gradients."""

from __future__ import annotations

import math

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


CONFIGS = st.builds(
    AlignmentConfig, low_negatives=st.sampled_from(["table", "batch"]), same_value_negatives=st.booleans()
)
SHAPES = st.fixed_dictionaries(
    {
        "num_tables": st.integers(1, 3),
        "num_rows": st.integers(1, 12),
        "num_values": st.sampled_from([1, 4, 15]),
        # Several low attributes, one alone, which has no negatives in its table, and none at all.
        "roles": st.sampled_from([(1, 1, 2, 2, 0, 0), (1, 0, 0, 0, 0, 2), (0, 0, 0, 0, 0, 0)]),
    }
)


@settings(max_examples=60)
@given(seed=SEEDS, shape=SHAPES, config=CONFIGS, length=st.sampled_from([1.0, 2.5]))
def test_losses_and_gradients_are_the_papers_formulas_and_theorems_cell_by_cell(
    make_arrays, special, seed, shape, config, length
):
    world = World(make_arrays(seed=seed, **shape), special, np.arange(shape["num_rows"]), seed)
    sigma = length * F.normalize(world.sigma, dim=1)
    for align, terms, temperature in (
        (world.align_low, world.low_terms, config.temperature_low),
        (world.align_high, world.high_terms, config.temperature_high),
    ):
        own = sigma.clone().requires_grad_()
        loss = align(config, own)
        loss.backward()
        expected = sum_slowly(world, terms(config), temperature)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        torch.testing.assert_close(own.grad, expect_gradient(world, terms(config), temperature, sigma), **EXACT)


@settings(max_examples=30)
@given(num_negatives=st.integers(0, 6), seed=SEEDS, temperature=st.sampled_from([0.02, 0.1, 1.0]))
def test_the_gradient_of_info_nce_on_inner_products_is_the_lemma(num_negatives, seed, temperature):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(num_negatives + 2, WIDTH, generator=generator, dtype=torch.float64)
    sigma, candidates = F.normalize(drawn[:1], dim=1).requires_grad_(), F.normalize(drawn[1:], dim=1)
    everyone = torch.ones(1, num_negatives + 1, dtype=torch.bool)
    info_nce(sigma @ candidates.T / temperature, torch.tensor([0]), everyone).sum().backward()
    expected = -descend(sigma.detach()[0], candidates[0], list(candidates[1:]), temperature)
    torch.testing.assert_close(sigma.grad[0], expected, **EXACT)


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
