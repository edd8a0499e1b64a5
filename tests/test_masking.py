"""Tests of masking: the very tokens of a seed, the regimes' shares, whole spans, and what takes a token's place."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import REGIME_HEADER, REGIME_VALUE, REGIME_VANILLA, BatchBuilder, MaskingConfig
from navi.errors import ConfigError

PAPER = MaskingConfig(header_share=0.4, value_share=0.4, unknown_attribute_rate=0.5)
CONFIGS = [PAPER, MaskingConfig(), MaskingConfig(whole_spans=False), MaskingConfig(header_share=0.0, value_share=1.0)]
NUM_ROWS = 4000
BITS = 2**64 - 1
RANK, SHIFT, UNKNOWN, REPLACE, RANDOM, CHOOSE = range(6)


class Masked:
    """Rows, what became of their tokens, and the regime of each segment as far as a masked token shows it."""

    def __init__(self, arrays, special, config, rows=None, *, seed=0, epoch=0):
        rows = np.arange(arrays.num_rows) if rows is None else rows
        builder = BatchBuilder(arrays, special, masking=config, align=False, seed=seed)
        self.layout = builder.lay_out(rows)
        masks, self.targets = builder.mask_layout(self.layout, epoch=epoch)
        self.token_ids, self.unknown = masks.token_ids.numpy(), masks.segment_unknown.numpy()
        self.old, self.span = self.layout.token_ids.numpy(), self.layout.token_span.numpy()
        self.is_masked = np.zeros(len(self.old), np.bool_)
        self.is_masked[self.targets.position.numpy()] = True
        self.segment = np.minimum(self.span // 2, len(self.unknown) - 1)  # of text; of other tokens any
        self.kind = self.targets.kind.numpy()
        self.target_segment = self.segment[self.is_masked]
        self.num_segments = len(self.unknown)
        # Vanilla segments may have no target at all: every segment is vanilla until a target says otherwise.
        self.regime = np.full(self.num_segments, REGIME_VANILLA)
        self.regime[self.target_segment] = self.kind
        self.is_text = self.span < 2 * self.num_segments


@pytest.fixture(scope="module")
def arrays(make_arrays):
    """Many rows of one to six segments."""
    return make_arrays(num_rows=NUM_ROWS, num_tables=4, seed=2)


@pytest.fixture(scope="module")
def masked(arrays, special):
    return Masked(arrays, special, PAPER)


def assert_share(count, total, expected):
    """Assert a binomial share within five standard deviations."""
    spread = 5 * np.sqrt(expected * (1 - expected) / total)
    assert abs(count / total - expected) < spread + 1e-9, (count / total, expected, total)


def fold(key, number):
    """Return splitmix64's number for a key and a number, by Python's integers."""
    state = (key * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) & BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & BITS
    return state ^ (state >> 31)


def uniform(key):
    return (key >> 11) / 2**53


def mask_slowly(arrays, row, special, config, seed, epoch):
    """Return (tokens, targets as (place, token, regime), unknown attributes) of one row, token by token."""
    row_key = fold(fold(fold(0, seed), epoch), row)
    segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
    keys = [fold(row_key, rank) for rank in range(len(segments))]
    order = sorted(range(len(keys)), key=lambda rank: fold(keys[rank], RANK))
    shift = uniform(fold(row_key, SHIFT))
    tokens, targets, unknown = [special.cls], [], []
    for rank, (segment, key) in enumerate(zip(segments, keys, strict=True)):
        place = (order.index(rank) + shift) / len(keys)
        regime = REGIME_VANILLA
        if config.whole_spans and place < config.header_share + config.value_share:
            regime = REGIME_HEADER if place < config.header_share else REGIME_VALUE
        unknown.append(regime == REGIME_HEADER and uniform(fold(key, UNKNOWN)) < config.unknown_attribute_rate)
        header, value = arrays.segment_header[segment], arrays.segment_value[segment]
        parts = [(t, "header") for t in arrays.header_tokens[slice(*arrays.header_offsets[header : header + 2])]]
        parts += [(special.colon, "")]
        parts += [(t, "value") for t in arrays.value_tokens[slice(*arrays.value_offsets[value : value + 2])]]
        for position, (token, part) in enumerate([*parts, (special.sep, "")]):
            own = fold(key, position)
            chosen = {
                REGIME_HEADER: part == "header",
                REGIME_VALUE: part == "value",
                REGIME_VANILLA: bool(part) and uniform(fold(own, CHOOSE)) < config.token_share,
            }[regime]
            if chosen:
                targets.append((len(tokens), int(token), regime))
                draw = uniform(fold(own if regime == REGIME_VANILLA else key, REPLACE))
                if draw < config.mask_rate:
                    token = special.mask
                elif draw < config.mask_rate + config.random_rate:
                    token = special.regular[fold(own, RANDOM) % len(special.regular)]
            tokens.append(int(token))
    return tokens, targets, unknown


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.integers(0, 23), min_size=1, max_size=6),
    seed=st.integers(-3, 2**40),
    epoch=st.integers(-1, 9),
    config=st.sampled_from(CONFIGS),
)
def test_rows_are_masked_as_a_walk_token_by_token_masks_each_alone(make_arrays, special, rows, seed, epoch, config):
    arrays = make_arrays(seed=5)
    found = Masked(arrays, special, config, np.array(rows), seed=seed, epoch=epoch)
    tokens, targets, unknown = [], [], []
    for row in rows:
        row_tokens, row_targets, row_unknown = mask_slowly(arrays, row, special, config, seed & BITS, epoch & BITS)
        targets += [(place + len(tokens), token, regime) for place, token, regime in row_targets]
        tokens += row_tokens
        unknown += row_unknown
    assert found.token_ids.tolist() == tokens
    assert found.unknown.tolist() == unknown
    fields = (found.targets.position, found.targets.token, found.targets.kind)
    assert list(zip(*(field.tolist() for field in fields), strict=True)) == targets
    assert int(found.targets.num_masked) == len(targets)


def test_the_masks_of_a_seed_are_those_of_earlier_versions(make_arrays, special):
    found = Masked(make_arrays(seed=5), special, PAPER, np.arange(24), seed=7, epoch=3)
    digest = hashlib.sha256(found.token_ids.tobytes() + found.targets.position.numpy().tobytes()).hexdigest()
    assert digest[:16] == "42db329430f04d6a"


@pytest.mark.parametrize("num_cells", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("config", [PAPER, MaskingConfig()], ids=["paper", "default"])
def test_regimes_hold_their_shares_at_every_place_of_rows_of_any_length(make_arrays, special, num_cells, config):
    arrays = make_arrays(num_rows=NUM_ROWS, cells=(num_cells, num_cells), seed=num_cells)
    regime = Masked(arrays, special, config, seed=1).regime.reshape(NUM_ROWS, num_cells)
    vanilla_share = 1 - config.header_share - config.value_share
    for code, share in enumerate((config.header_share, config.value_share, vanilla_share)):
        for place in range(num_cells):
            assert_share(np.count_nonzero(regime[:, place] == code), NUM_ROWS, share)
    # And in each row, up to rounding.
    for code, share in ((REGIME_HEADER, config.header_share), (REGIME_VALUE, config.header_share + config.value_share)):
        assert (np.abs((regime <= code).sum(axis=1) - share * num_cells) < 1 + 1e-6).all()


def test_whole_spans_become_mask_random_or_stay_eighty_ten_ten(masked, special):
    whole = masked.is_masked.copy()
    whole[whole] = masked.kind != REGIME_VANILLA
    segment, now = masked.segment[whole], masked.token_ids[whole]
    size_S = np.bincount(segment, minlength=masked.num_segments)
    hidden_S = np.bincount(segment, weights=now == special.mask, minlength=masked.num_segments)
    kept_S = np.bincount(segment, weights=now == masked.old[whole], minlength=masked.num_segments)
    long = size_S >= 2  # a random token is the old one by chance now and then, two of them hardly ever
    assert set(np.unique(hidden_S[long] / size_S[long])) == {0.0, 1.0}
    total = np.count_nonzero(long)
    hidden, kept = np.count_nonzero(hidden_S[long] == size_S[long]), np.count_nonzero(kept_S[long] == size_S[long])
    assert_share(hidden, total, 0.8)
    assert_share(kept, total, 0.1)
    assert_share(total - hidden - kept, total, 0.1)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_attribute_is_hidden_at_the_set_rate_and_only_where_the_header_is_masked(arrays, special, rate):
    found = Masked(arrays, special, replace(PAPER, unknown_attribute_rate=rate))
    header_masked = found.regime == REGIME_HEADER
    assert not found.unknown[~header_masked].any()
    assert_share(np.count_nonzero(found.unknown[header_masked]), np.count_nonzero(header_masked), rate)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"header_share": 1.2}, "header_share must lie between 0 and 1, got 1.2"),
        ({"unknown_attribute_rate": -0.1}, "unknown_attribute_rate must lie between 0 and 1, got -0.1"),
        ({"header_share": 0.7, "value_share": 0.4}, "header_share \\+ value_share must be at most 1, got 0.7 \\+ 0.4"),
        ({"mask_rate": 0.8, "random_rate": 0.3}, "mask_rate \\+ random_rate must be at most 1, got 0.8 \\+ 0.3"),
    ],
)
def test_shares_that_make_no_sense_are_refused(shares, message):
    with pytest.raises(ConfigError, match=message):
        MaskingConfig(**shares)
