"""What to beat: the accuracy of always guessing the most frequent header, or a column's most frequent value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.batches import REGIME_HEADER, REGIME_VALUE, BatchBuilder, MaskingConfig, SpecialTokens
from navi.corpus.arrays import SegmentArrays, gather_ranges

# Shape suffixes: S segments, T tokens (packed), K columns.

Ints = NDArray[np.int64]
NO_TOKEN = -1


def measure_guesses(
    arrays: SegmentArrays,
    train_rows: Ints,
    rows: Ints,
    special: SpecialTokens,
    masking: MaskingConfig,
    *,
    seed: int,
    epoch: int,
) -> dict[str, float]:
    """Return the token accuracies of both guesses on the masks that a model is measured with.

    The guess for a header is the header most training rows have; for a value, the value that its column has in most
    training rows. A guess is laid over the masked span token by token.
    """
    builder = BatchBuilder(arrays, special, masking=masking, align=False, seed=seed)
    batch = builder.build(rows, epoch=epoch)
    header, value_K = find_most_frequent(arrays, train_rows)
    cells = gather_ranges(arrays.row_offsets, rows)[1]
    value_S = value_K[arrays.cell_column[cells]]
    header_length_S, _ = gather_ranges(arrays.header_offsets, arrays.segment_header[arrays.row_segments[cells]])
    token, kind = batch.targets.token.numpy(), batch.targets.kind.numpy()
    place = batch.rows.token_position[batch.targets.position].numpy()
    segment = batch.rows.token_span[batch.targets.position].numpy() // 2

    is_header, is_value = kind == REGIME_HEADER, kind == REGIME_VALUE
    repeated = np.full(int(is_header.sum()), header)
    guess = _read_tokens(arrays.header_offsets, arrays.header_tokens, repeated, place[is_header])
    header_hits = guess == token[is_header]
    place = (place - header_length_S[segment] - 1)[is_value]
    guess = _read_tokens(arrays.value_offsets, arrays.value_tokens, value_S[segment[is_value]], place)
    value_hits = guess == token[is_value]
    return {
        "most_frequent_header": float(header_hits.mean()) if len(header_hits) else 0.0,
        "most_frequent_value": float(value_hits.mean()) if len(value_hits) else 0.0,
    }


def find_most_frequent(arrays: SegmentArrays, rows: Ints) -> tuple[int, Ints]:
    """Return the header that most of the rows have, and each column's most frequent value: (K,), NO_TOKEN for none."""
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segment_C = arrays.row_segments[cells].astype(np.int64)
    table_C = np.repeat(arrays.row_table[rows], lengths).astype(np.int64)
    key, count = np.unique(table_C * arrays.num_segments + segment_C, return_counts=True)
    table, segment = np.divmod(key, max(arrays.num_segments, 1))
    header = arrays.segment_header[segment].astype(np.int64)
    column = arrays.find_columns(table, header)
    value_K = np.full(arrays.num_columns, NO_TOKEN, dtype=np.int64)
    rising = np.argsort(count, kind="stable")
    value_K[column[rising]] = arrays.segment_value[segment[rising]]
    return int(np.bincount(header, weights=count, minlength=1).argmax()), value_K


def _read_tokens(offsets: Ints, tokens: NDArray[np.int32], ids: Ints, place: Ints) -> Ints:
    """Return the token at a place of each id's text; NO_TOKEN beyond its end or where there is no id."""
    known = np.maximum(ids, 0)
    inside = (ids >= 0) & (place < offsets[known + 1] - offsets[known])
    return np.where(inside, tokens[np.where(inside, offsets[known] + place, 0)], NO_TOKEN)
