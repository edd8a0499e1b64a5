"""Tests of the masking regimes: their shares, whole spans, what replaces a token, and independence of the batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import MaskingConfig, lay_out, mask_layout
from navi.batches.layout import PART_HEADER, PART_NONE, PART_VALUE
from navi.batches.masking import REGIME_HEADER, REGIME_VALUE, REGIME_VANILLA
from navi.errors import ConfigError

PAPER = MaskingConfig(header_share=0.4, value_share=0.4, unknown_attribute_rate=0.5)
NUM_ROWS = 4000


@pytest.fixture(scope="module")
def many_rows(make_arrays, special):
    """The layout of many rows of one to six segments."""
    arrays = make_arrays(num_rows=NUM_ROWS, num_tables=4, seed=2)
    return lay_out(arrays, np.arange(NUM_ROWS), special)


def find_regimes(layout, masks):
    """Return the regime of each segment, read from its first token."""
    return masks.kind[layout.segment_starts]


def assert_share(count, total, expected):
    """Assert a binomial share within five standard deviations."""
    spread = 5 * np.sqrt(expected * (1 - expected) / total)
    assert abs(count / total - expected) < spread + 1e-9, (count / total, expected, total)


@pytest.mark.parametrize("num_cells", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("config", [PAPER, MaskingConfig()], ids=["paper", "default"])
def test_regimes_hold_their_shares_in_rows_of_any_length(make_arrays, special, num_cells, config):
    arrays = make_arrays(num_rows=NUM_ROWS, cells=(num_cells, num_cells), seed=num_cells)
    layout = lay_out(arrays, np.arange(NUM_ROWS), special)
    regimes = find_regimes(layout, mask_layout(layout, config, special, seed=1, epoch=0))
    vanilla_share = 1 - config.header_share - config.value_share
    for regime, share in (
        (REGIME_HEADER, config.header_share),
        (REGIME_VALUE, config.value_share),
        (REGIME_VANILLA, vanilla_share),
    ):
        # A row's regimes are drawn together, so the rows are the independent draws.
        assert_share(np.count_nonzero(regimes == regime) / num_cells, NUM_ROWS, share)


@settings(max_examples=25, deadline=None)
@given(header=st.floats(0, 1), rest=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_each_row_is_divided_in_the_set_shares_up_to_rounding(many_rows, special, header, rest, seed):
    config = MaskingConfig(header_share=header, value_share=rest * (1 - header))
    regimes = find_regimes(many_rows, mask_layout(many_rows, config, special, seed=seed, epoch=0))
    size_R = np.bincount(many_rows.segment_row)
    upto = {REGIME_HEADER: header, REGIME_VALUE: header + config.value_share}
    for regime, share in upto.items():
        found_R = np.bincount(many_rows.segment_row, weights=regimes <= regime)
        assert (np.abs(found_R - share * size_R) < 1 + 1e-6).all()


def test_every_place_of_a_row_is_equally_often_in_each_regime(make_arrays, special):
    arrays = make_arrays(num_rows=NUM_ROWS, cells=(5, 5))
    layout = lay_out(arrays, np.arange(NUM_ROWS), special)
    regimes = find_regimes(layout, mask_layout(layout, PAPER, special, seed=3, epoch=0)).reshape(NUM_ROWS, 5)
    for place in range(5):
        for regime, share in enumerate((0.4, 0.4, 0.2)):
            assert_share(np.count_nonzero(regimes[:, place] == regime), NUM_ROWS, share)


def test_header_and_value_spans_are_masked_whole_and_nothing_else_of_their_segment(many_rows, special):
    masks = mask_layout(many_rows, PAPER, special, seed=0, epoch=0)
    for regime, part in ((REGIME_HEADER, PART_HEADER), (REGIME_VALUE, PART_VALUE)):
        within = (masks.kind == regime) & (many_rows.token_segment >= 0)
        assert within.any()
        assert (masks.masked[within] == (many_rows.token_part[within] == part)).all()


def test_vanilla_segments_have_the_set_share_of_their_tokens_masked(many_rows, special):
    masks = mask_layout(many_rows, PAPER, special, seed=0, epoch=0)
    within = (masks.kind == REGIME_VANILLA) & (many_rows.token_part != PART_NONE)
    assert_share(np.count_nonzero(masks.masked[within]), np.count_nonzero(within), PAPER.token_share)


def test_cls_colon_and_sep_are_never_masked_nor_changed(many_rows, special):
    masks = mask_layout(many_rows, replace(PAPER, token_share=1.0), special, seed=0, epoch=0)
    structure = many_rows.token_part == PART_NONE
    assert not masks.masked[structure].any()
    assert (masks.token_ids[structure] == many_rows.token_ids[structure]).all()


def test_tokens_that_are_not_masked_stay_as_they_are(many_rows, special):
    masks = mask_layout(many_rows, PAPER, special, seed=0, epoch=0)
    assert (masks.token_ids[~masks.masked] == many_rows.token_ids[~masks.masked]).all()


def test_whole_spans_become_mask_random_or_stay_eighty_ten_ten(many_rows, special):
    masks = mask_layout(many_rows, PAPER, special, seed=0, epoch=0)
    spans = masks.masked & (masks.kind != REGIME_VANILLA)
    segment = many_rows.token_segment[spans]
    size_S = np.bincount(segment, minlength=len(many_rows.segment_id))
    hidden_S = np.bincount(segment, weights=masks.token_ids[spans] == special.mask, minlength=len(size_S))
    kept_S = np.bincount(segment, weights=masks.token_ids[spans] == many_rows.token_ids[spans], minlength=len(size_S))
    long = size_S >= 2  # a random token is the old one by chance now and then, two of them hardly ever
    assert set(np.unique(hidden_S[long] / size_S[long])) == {0.0, 1.0}
    total = np.count_nonzero(long)
    hidden, kept = np.count_nonzero(hidden_S[long] == size_S[long]), np.count_nonzero(kept_S[long] == size_S[long])
    assert_share(hidden, total, 0.8)
    assert_share(kept, total, 0.1)
    assert_share(total - hidden - kept, total, 0.1)


def test_vanilla_tokens_become_mask_random_or_stay_each_by_itself(many_rows, special):
    config = MaskingConfig(whole_spans=False, token_share=1.0)
    masks = mask_layout(many_rows, config, special, seed=0, epoch=0)
    tokens, old = masks.token_ids[masks.masked], many_rows.token_ids[masks.masked]
    by_chance = 0.1 / len(special.regular)
    assert_share(np.count_nonzero(tokens == special.mask), len(tokens), 0.8)
    assert_share(np.count_nonzero(tokens == old), len(tokens), 0.1 + by_chance)
    hidden = np.bincount(many_rows.token_segment[masks.masked], weights=tokens == special.mask)
    size = np.bincount(many_rows.token_segment[masks.masked])
    assert ((hidden > 0) & (hidden < size)).any()


def test_random_tokens_are_spread_over_the_regular_vocabulary(many_rows, special):
    config = MaskingConfig(whole_spans=False, token_share=1.0, mask_rate=0.0, random_rate=1.0)
    masks = mask_layout(many_rows, config, special, seed=0, epoch=0)
    drawn = masks.token_ids[masks.masked]
    counts = np.bincount(drawn, minlength=int(special.regular[-1]) + 1)
    assert counts[: int(special.regular[0])].sum() == 0
    expected = len(drawn) / len(special.regular)
    chi_square = ((counts[special.regular] - expected) ** 2 / expected).sum()
    freedom = len(special.regular) - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_attribute_is_hidden_at_the_set_rate_and_only_where_the_header_is_masked(many_rows, special, rate):
    masks = mask_layout(many_rows, replace(PAPER, unknown_attribute_rate=rate), special, seed=0, epoch=0)
    header_masked = find_regimes(many_rows, masks) == REGIME_HEADER
    assert not masks.unknown[~header_masked].any()
    assert_share(np.count_nonzero(masks.unknown[header_masked]), np.count_nonzero(header_masked), rate)


def test_hiding_the_attribute_is_independent_of_what_replaces_the_header(many_rows, special):
    masks = mask_layout(many_rows, PAPER, special, seed=0, epoch=0)
    header_masked = find_regimes(many_rows, masks) == REGIME_HEADER
    hidden = masks.token_ids[many_rows.segment_starts] == special.mask
    for group in (header_masked & hidden, header_masked & ~hidden):
        assert_share(np.count_nonzero(masks.unknown[group]), np.count_nonzero(group), 0.5)


def test_without_whole_spans_every_segment_is_vanilla(many_rows, special):
    masks = mask_layout(many_rows, replace(PAPER, whole_spans=False), special, seed=0, epoch=0)
    assert (masks.kind == REGIME_VANILLA).all()
    assert not masks.unknown.any()
    assert_share(np.count_nonzero(masks.masked), np.count_nonzero(many_rows.token_part != PART_NONE), 0.15)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.integers(0, 23), min_size=1, max_size=10), seed=st.integers(0, 99), epoch=st.integers(0, 9))
def test_masks_of_a_row_do_not_depend_on_the_rows_beside_it(make_arrays, special, rows, seed, epoch):
    arrays = make_arrays()
    mask = partial(mask_layout, config=PAPER, special=special, seed=seed, epoch=epoch)
    together = lay_out(arrays, np.array(rows), special)
    masks = mask(together)
    first_segment = 0
    for number, row in enumerate(rows):
        layout = lay_out(arrays, np.array([row]), special)
        alone = mask(layout)
        tokens = slice(together.row_starts[number], together.row_starts[number + 1])
        for name in ("token_ids", "masked", "kind"):
            assert (getattr(masks, name)[tokens] == getattr(alone, name)).all()
        last_segment = first_segment + len(layout.segment_id)
        assert (masks.unknown[first_segment:last_segment] == alone.unknown).all()
        first_segment = last_segment


@pytest.mark.parametrize("other", [{"seed": 1, "epoch": 0}, {"seed": 0, "epoch": 1}], ids=["seed", "epoch"])
def test_another_seed_or_epoch_masks_anew(many_rows, special, other):
    regimes = find_regimes(many_rows, mask_layout(many_rows, PAPER, special, seed=0, epoch=0))
    changed = find_regimes(many_rows, mask_layout(many_rows, PAPER, special, **other))
    by_chance = 0.4**2 + 0.4**2 + 0.2**2
    assert abs(np.mean(regimes == changed) - by_chance) < 0.03


def test_rows_without_cells_have_nothing_to_mask(make_arrays, special):
    arrays = replace(
        make_arrays(num_rows=2), row_offsets=np.zeros(3, dtype=np.int64), row_segments=np.zeros(0, dtype=np.int32)
    )
    masks = mask_layout(lay_out(arrays, np.arange(2), special), PAPER, special, seed=0, epoch=0)
    assert masks.token_ids.tolist() == [special.cls, special.cls]
    assert not masks.masked.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"header_share": 1.2}, "header_share must lie between 0 and 1, got 1.2"),
        ({"unknown_attribute_rate": -0.1}, "unknown_attribute_rate must lie between 0 and 1, got -0.1"),
        ({"header_share": 0.7, "value_share": 0.4}, "header_share \\+ value_share must be at most 1"),
        ({"mask_rate": 0.8, "random_rate": 0.3}, "mask_rate \\+ random_rate must be at most 1"),
    ],
)
def test_shares_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        MaskingConfig(**settings)
