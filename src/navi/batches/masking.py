"""Which tokens of a row are masked: headers whole, values whole, or a few tokens at random."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from navi.batches.layout import PART_HEADER, PART_NONE, PART_VALUE, Layout, SpecialTokens
from navi.errors import ConfigError
from navi.randomness import choose_below, fold, make_key, order_keys, uniform

# Shape suffixes: R rows, S segments, T tokens (packed).

REGIME_HEADER, REGIME_VALUE, REGIME_VANILLA = 0, 1, 2
"""Codes of the three masking regimes; the kinds of a target are numbered likewise."""


class Purpose(IntEnum):
    """What a random number is for: each has its own."""

    RANK = 0
    SHIFT = 1
    UNKNOWN = 2
    REPLACE = 3
    RANDOM = 4
    CHOOSE = 5


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How a row's segments are divided among the three masking regimes, and what takes a masked token's place."""

    header_share: float = 0.15
    """Share of a row's segments whose header is masked (the paper: 0.4)."""
    value_share: float = 0.25
    """Share of a row's segments whose value is masked (the paper: 0.4); the rest is vanilla."""
    token_share: float = 0.15
    """Share of the header and value tokens masked in vanilla segments."""
    unknown_attribute_rate: float = 0.8
    """How often a header-masked segment's attribute is hidden too (the paper: 0)."""
    mask_rate: float = 0.8
    """How often a masked span becomes [MASK]."""
    random_rate: float = 0.1
    """How often a masked span becomes random tokens; otherwise it stays as it is."""
    whole_spans: bool = True
    """Mask headers and values whole; off, every segment is vanilla (the ablation without segment masking)."""

    def __post_init__(self) -> None:
        for name in (
            "header_share",
            "value_share",
            "token_share",
            "unknown_attribute_rate",
            "mask_rate",
            "random_rate",
        ):
            share = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"{name} must lie between 0 and 1, got {share}.")
        if self.header_share + self.value_share > 1.0:
            raise ConfigError(
                f"header_share + value_share must be at most 1, got {self.header_share} + {self.value_share}."
            )
        if self.mask_rate + self.random_rate > 1.0:
            raise ConfigError(f"mask_rate + random_rate must be at most 1, got {self.mask_rate} + {self.random_rate}.")


@dataclass(frozen=True, kw_only=True)
class Masks:
    """The outcome of masking a layout once."""

    token_ids: NDArray[np.int64]
    """(T,) the tokens after masking."""
    masked: NDArray[np.bool_]
    """(T,) whether the token is to be predicted."""
    kind: NDArray[np.int8]
    """(T,) regime of the token's segment."""
    unknown: NDArray[np.bool_]
    """(S,) whether the segment's attribute is hidden."""


def mask_layout(layout: Layout, config: MaskingConfig, special: SpecialTokens, *, seed: int, epoch: int) -> Masks:
    """Mask a layout; the outcome for a row depends on (seed, epoch, row) alone, not on the rows beside it."""
    row_keys = fold(make_key(seed, epoch), layout.rows)
    segment_keys = fold(row_keys[layout.segment_row], layout.segment_rank)
    token_keys = np.zeros(len(layout.token_ids), dtype=np.int64)
    inside = layout.token_segment >= 0
    token_keys[inside] = fold(segment_keys[layout.token_segment[inside]], layout.token_position[inside])

    regime_S = _draw_regimes(layout, config, row_keys, segment_keys)
    regime_T = np.full(len(inside), REGIME_VANILLA, dtype=np.int8)
    regime_T[inside] = regime_S[layout.token_segment[inside]]
    chosen = uniform(fold(token_keys, Purpose.CHOOSE)) < config.token_share
    masked = np.where(
        regime_T == REGIME_HEADER,
        layout.token_part == PART_HEADER,
        np.where(regime_T == REGIME_VALUE, layout.token_part == PART_VALUE, chosen & (layout.token_part != PART_NONE)),
    )
    # A whole span shares one draw, so that no kept token of it gives the others away.
    whole = regime_T != REGIME_VANILLA
    draw = uniform(fold(token_keys, Purpose.REPLACE))
    draw[whole] = uniform(fold(segment_keys, Purpose.REPLACE))[layout.token_segment[whole]]
    random_ids = special.regular[choose_below(fold(token_keys, Purpose.RANDOM), len(special.regular))]
    token_ids = np.where(masked & (draw < config.mask_rate), special.mask, layout.token_ids)
    swap = masked & (draw >= config.mask_rate) & (draw < config.mask_rate + config.random_rate)
    token_ids = np.where(swap, random_ids, token_ids)
    hidden = uniform(fold(segment_keys, Purpose.UNKNOWN)) < config.unknown_attribute_rate
    unknown = (regime_S == REGIME_HEADER) & hidden
    return Masks(token_ids=token_ids, masked=masked, kind=regime_T, unknown=unknown)


def _draw_regimes(
    layout: Layout, config: MaskingConfig, row_keys: NDArray[np.int64], segment_keys: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Divide each row's segments in the set shares: ranks in random order, shifted by one draw a row.

    The shift rounds at random, so that the shares hold on average in short rows too.
    """
    if not config.whole_spans:
        return np.full(len(segment_keys), REGIME_VANILLA, dtype=np.int8)
    order = np.lexsort((order_keys(fold(segment_keys, Purpose.RANK)), layout.segment_row))
    rank_S = np.empty(len(order), dtype=np.int64)
    rank_S[order] = layout.segment_rank
    count_R = np.bincount(layout.segment_row, minlength=len(row_keys))
    shift_R = uniform(fold(row_keys, Purpose.SHIFT))
    place_S = (rank_S + shift_R[layout.segment_row]) / np.maximum(count_R[layout.segment_row], 1)
    regime = np.full(len(place_S), REGIME_VANILLA, dtype=np.int8)
    regime[place_S < config.header_share + config.value_share] = REGIME_VALUE
    regime[place_S < config.header_share] = REGIME_HEADER
    return regime
