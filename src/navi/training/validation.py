"""How well a model fills in held-out rows, always with the same masks, and what it has to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import REGIME_HEADER, REGIME_VALUE, Batch, BatchBuilder, MaskingConfig, SpecialTokens, prefetch
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.losses import StepSize, compute_losses
from navi.randomness import fold, make_key, order_keys
from navi.training.config import PretrainConfig
from navi.training.step import Ints, Stepper, autocast

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: S segments of a batch, M targets, K columns.

VALIDATION_EPOCH = -1
"""The epoch that validation masks are drawn for: no epoch of training has them."""
PROBE = MaskingConfig(header_share=0.25, value_share=0.25, token_share=0.0, mask_rate=1.0, random_rate=0.0)
"""What accuracies are measured with: a quarter of a row's headers and a quarter of its values hidden whole."""
INFORMED, BLIND = replace(PROBE, unknown_attribute_rate=0.0), replace(PROBE, unknown_attribute_rate=1.0)
MAJORITY_ROWS = 200_000
"""Training rows that the most frequent header and values are counted in, at most: more take long and change nothing."""
NO_TOKEN = -1
MEASURED = ("masked", "targets", "header_hits", "header_targets", "value_hits", "value_targets")
"""What is added up over validation rows."""


class Validation:
    """Measures a model: masked loss, header and value accuracy on validation rows, and held-out columns found again."""

    def __init__(self, corpus: Corpus, special: SpecialTokens, config: PretrainConfig) -> None:
        self._corpus, self._seed, self._workers = corpus, config.training.seed, config.training.workers
        self.rows = choose_rows(corpus.rows_of("validation"), config.training.validate_rows, self._seed)
        self._rows_per_batch = config.sampler.rows_per_batch
        self._builders = {
            name: BatchBuilder(corpus.arrays, special, masking=masking, align=False, seed=self._seed)
            for name, masking in (("training", config.masking), ("informed", INFORMED), ("blind", BLIND))
        }

    def __call__(self, stepper: Stepper) -> dict[str, float]:
        """Return the measures; nothing where there are no validation rows."""
        if len(self.rows) == 0:
            return {}
        parts = [self.rows[i : i + self._rows_per_batch] for i in range(0, len(self.rows), self._rows_per_batch)]
        mine = parts[stepper.processes.rank :: stepper.processes.count]
        sums = {name: self._add_up(stepper, builder, mine) for name, builder in self._builders.items()}

        def divide(masking: str, part: str, whole: str) -> float:
            return sums[masking][part] / max(sums[masking][whole], 1.0)

        columns = stepper.views.measure_columns(stepper.model, stepper.device) if stepper.views else {}
        return {
            "masked_loss": divide("training", "masked", "targets"),
            "header_accuracy_informed": divide("informed", "header_hits", "header_targets"),
            "header_accuracy_blind": divide("blind", "header_hits", "header_targets"),
            "value_accuracy": divide("informed", "value_hits", "value_targets"),
            **columns,
        }

    def measure_majority(self) -> dict[str, float]:
        """Return the accuracies of the majority baseline on the same masks: what is to be beaten."""
        train = choose_rows(self._corpus.rows_of("train"), MAJORITY_ROWS, self._seed)
        batch = self._builders["informed"].build(self.rows, epoch=VALIDATION_EPOCH)
        return majority_baseline(self._corpus.arrays, train, batch)

    @torch.no_grad()
    def _add_up(self, stepper: Stepper, builder: BatchBuilder, parts: list[Ints]) -> dict[str, float]:
        """Return the masked loss, hits and targets of all rows, added up over all processes."""
        stepper.model.eval()
        total = torch.zeros(len(MEASURED), device=stepper.device)
        for batch in prefetch(parts, lambda rows: builder.build(rows, epoch=VALIDATION_EPOCH), workers=self._workers):
            here = batch.to(stepper.device)
            with autocast(stepper.device, stepper.dtype):
                one = StepSize(num_targets=1, num_tables=1)
                losses = compute_losses(stepper.model, stepper.model(here.rows), here, stepper.config.alignment, one)
            found = vars(losses) | {"targets": here.targets.num_masked}
            total += torch.stack([found[name].float() for name in MEASURED])
        return dict(zip(MEASURED, stepper.processes.sum(total).tolist(), strict=True))


def majority_baseline(arrays: SegmentArrays, train_rows: Ints, batch: Batch) -> dict[str, float]:
    """Return the token accuracies of always guessing what is most frequent, on the targets of a batch.

    The guess for a header is the header most training rows have; for a value, the value that its column has in most
    training rows. A guess is laid over the masked span token by token.
    """
    header, value_K = find_majority(arrays, train_rows)
    _, cells = gather_ranges(arrays.row_offsets, batch.row_ids.numpy())
    header_S = arrays.segment_header[arrays.row_segments[cells]]
    segment_M = (batch.rows.token_span[batch.targets.position] // 2).numpy()
    place_M = batch.rows.token_position[batch.targets.position].numpy()
    header_length_M = np.diff(arrays.header_offsets)[header_S][segment_M]
    headers = read_tokens(arrays.header_offsets, arrays.header_tokens, np.full(len(place_M), header), place_M)
    value_M, value_place_M = value_K[arrays.cell_column[cells]][segment_M], place_M - header_length_M - 1
    values = read_tokens(arrays.value_offsets, arrays.value_tokens, value_M, value_place_M)
    token, kind = batch.targets.token.numpy(), batch.targets.kind.numpy()
    hits = {
        "most_frequent_header": (headers == token)[kind == REGIME_HEADER],
        "most_frequent_value": (values == token)[kind == REGIME_VALUE],
    }
    return {name: float(hit.mean()) if len(hit) else 0.0 for name, hit in hits.items()}


def find_majority(arrays: SegmentArrays, rows: Ints) -> tuple[int, Ints]:
    """Return the header that most of the rows have, and each column's most frequent value: (K,), NO_TOKEN for none."""
    _, cells = gather_ranges(arrays.row_offsets, rows)
    segment_C = arrays.row_segments[cells].astype(np.int64)
    pair, count = np.unique(arrays.cell_column[cells] * arrays.num_segments + segment_C, return_counts=True)
    column, segment = np.divmod(pair, max(arrays.num_segments, 1))
    value_K = np.full(arrays.num_columns, NO_TOKEN, dtype=np.int64)
    rising = np.argsort(count, kind="stable")
    value_K[column[rising]] = arrays.segment_value[segment[rising]]
    return int(np.bincount(arrays.segment_header[segment_C], minlength=1).argmax()), value_K


def read_tokens(offsets: Ints, tokens: NDArray[np.int32], ids: Ints, place: Ints) -> Ints:
    """Return the token at a place of each id's text; NO_TOKEN beyond its ends or where there is no id."""
    known = np.maximum(ids, 0)
    inside = (ids >= 0) & (place >= 0) & (place < offsets[known + 1] - offsets[known])
    return np.where(inside, tokens[np.where(inside, offsets[known] + place, 0)], NO_TOKEN)


def choose_rows(rows: Ints, count: int, seed: int) -> Ints:
    """Return at most `count` of the rows, drawn evenly and always the same, in the corpus's order."""
    if len(rows) <= count:
        return rows
    keys = order_keys(fold(make_key(seed, VALIDATION_EPOCH), rows))
    return np.sort(rows[np.argsort(keys, kind="stable")[:count]])
