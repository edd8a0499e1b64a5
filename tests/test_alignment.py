"""Tests of the contrastive losses: the paper's formulas as loops, and its lemma and theorems as gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import FIRST_SLOT, BatchBuilder, SpecialTokens
from navi.corpus import prepare
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, gather_ranges
from navi.errors import ConfigError
from navi.losses import AlignmentConfig, high_entropy_loss, info_nce, low_entropy_loss

PAPER = AlignmentConfig(low_negatives="table", same_value_negatives=True)
WIDTH = 6
EXACT = {"atol": 1e-11, "rtol": 1e-9}


class SmallWorld:
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
        """Yield (cell, its attribute, those that compete) of every term of the low loss."""
        for cell in self.cells:
            if cell["role"] == ROLE_LOW:
                rivals = [cell["table"]] if config.low_negatives == "table" else self.tables
                attributes = set.union(*(self.low_attributes(table) for table in rivals)) - {cell["attribute"]}
                yield cell, cell["attribute"], sorted(attributes)

    def high_terms(self, config):
        """Yield (cell, its place, those of the cells whose values compete) of every term of the high loss."""
        for cell in self.cells:
            if cell["role"] == ROLE_HIGH:
                negatives = [
                    other["place"]
                    for other in self.cells
                    if (other["table"], other["header"]) == (cell["table"], cell["header"])
                    and other["row"] != cell["row"]
                    and (config.same_value_negatives or other["value"] != cell["value"])
                ]
                yield cell, cell["place"], negatives


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


def sum_slowly(world, terms, targets, temperature):
    """Return Σ_t of the mean of a table's terms."""
    by_table = {table: [] for table in world.tables}
    for cell, positive, negatives in terms:
        loss = contrast(world.sigma[cell["place"]], targets[positive], targets[negatives], temperature)
        by_table[cell["table"]].append(loss)
    return sum(sum(losses) / len(losses) for losses in by_table.values() if losses)


def share_out(sigma, candidates, temperature):
    """Return p(x) of each candidate x, for similarities that are inner products."""
    weights = torch.exp(candidates @ sigma / temperature)
    return weights / weights.sum()


def descend(sigma, positive, negatives, temperature):
    """The closed form of the lemma: -∇ℓ = ((1 - p⁺) x⁺ - Σ p⁻ x⁻) / τ, for similarities that are inner products."""
    candidates = torch.stack([positive, *negatives])
    shares = share_out(sigma, candidates, temperature)
    return (positive - shares @ candidates) / temperature


def carry(force, vector):
    """Carry a force on a direction through x / |x| to the vector itself."""
    unit = vector / vector.norm()
    return (force - (force @ unit) * unit) / vector.norm()


def expect_gradients(terms, targets, temperature, sigma):
    """The closed forms of the theorems for every cell, and of what it is drawn to and driven from, as table means.

    Of a target x it is ∇ℓ = (p(x) − [x = x⁺]) σ / τ.
    """
    terms = list(terms)
    gradient, of_targets = torch.zeros_like(sigma), torch.zeros_like(targets)
    for cell, positive, negatives in terms:
        place, chosen = cell["place"], [positive, *negatives]
        unit, units = F.normalize(sigma[place], dim=0), F.normalize(targets[chosen], dim=1)
        weight = 1 / sum(other["table"] == cell["table"] for other, _, _ in terms)
        gradient[place] = carry(-descend(unit, units[0], units[1:], temperature), sigma[place]) * weight
        shares = share_out(unit, units, temperature)
        for number, target in enumerate(chosen):
            pull = (shares[number] - float(number == 0)) * unit / temperature
            of_targets[target] += carry(pull, targets[target]) * weight
    return gradient, of_targets


@pytest.fixture(scope="module")
def world(make_arrays, special):
    return SmallWorld(make_arrays(seed=21, num_values=5, cells=(3, 6)), special, np.arange(12))


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
    world = SmallWorld(make_arrays(seed=seed, **shape), special, np.arange(shape["num_rows"]), seed)
    sigma = length * F.normalize(world.sigma, dim=1)
    for align, terms, targets, temperature in (
        (world.align_low, world.low_terms, world.attributes, config.temperature_low),
        (world.align_high, world.high_terms, world.values, config.temperature_high),
    ):
        own = sigma.clone().requires_grad_()
        targets.requires_grad_()
        loss = align(config, own)
        loss.backward()
        targets.requires_grad_(requires_grad=False)
        expected = sum_slowly(world, terms(config), targets, temperature)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        gradient, of_targets = expect_gradients(terms(config), targets, temperature, sigma)
        torch.testing.assert_close(own.grad, gradient, **EXACT)
        torch.testing.assert_close(targets.grad, of_targets, **EXACT)


@settings(max_examples=30)
@given(num_negatives=st.integers(0, 6), seed=SEEDS, temperature=st.sampled_from([0.02, 0.1, 1.0]))
def test_the_gradient_of_info_nce_on_inner_products_is_the_lemma(num_negatives, seed, temperature):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(num_negatives + 2, WIDTH, generator=generator, dtype=torch.float64)
    sigma, candidates = F.normalize(drawn[:1], dim=1).requires_grad_(), F.normalize(drawn[1:], dim=1)
    everyone = torch.ones(1, num_negatives + 1, dtype=torch.bool)
    info_nce(sigma @ candidates.T / temperature, torch.tensor([0]), everyone).sum().backward()
    expected = -descend(sigma.detach()[0], candidates[0], candidates[1:], temperature)
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
        ({"weight": -1.0}, "weight must be at least 0, got -1.0"),
        ({"temperature_low": 0.0}, "temperature_low must be more than 0, got 0.0"),
        ({"temperature_high": -0.1}, "temperature_high must be more than 0, got -0.1"),
        ({"low_negatives": "row"}, "low_negatives must be 'table' or 'batch', got 'row'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        AlignmentConfig(**settings)


def test_the_entropy_of_a_column_decides_which_loss_its_cells_have(film_tables, prepare_config, tmp_path):
    """From tables to terms: constant and repeated columns to their attribute, all different ones to their values."""
    corpus = prepare([film_tables], tmp_path / "corpus", prepare_config)
    arrays, rows = corpus.arrays, corpus.rows_of("train")
    batch = BatchBuilder(arrays, SpecialTokens.of(corpus.tokenizer)).build(rows, epoch=0)
    alignment, num_cells = batch.alignment, batch.rows.num_segments // 2
    cells = gather_ranges(arrays.row_offsets, rows)[1]
    header_C = np.array(corpus.headers.to_pylist())[arrays.column_header[arrays.cell_column[cells]]]
    attributes = np.array(corpus.attributes.to_pylist())
    low, high = header_C[alignment.low_segment - num_cells], header_C[alignment.high_segment - num_cells]
    for found, expected in ((low, {"genre", "colour", "cast.0.name"}), (high, {"title", "Movie_Title"})):
        assert sorted(found) == sorted(header_C[np.isin(header_C, list(expected))])
    slots = alignment.anchor_slot[alignment.low_anchor]
    anchors = attributes[batch.rows.attribute_ids[slots - FIRST_SLOT]]
    assert dict(zip(low, anchors, strict=True)) == {"genre": "genre", "colour": "colour", "cast.0.name": "cast name"}
