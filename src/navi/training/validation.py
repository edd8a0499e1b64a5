"""How well a model fills in held-out rows, always with the same masks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import REGIME_HEADER, REGIME_VALUE, Batch, BatchBuilder, MaskingConfig, SpecialTokens, prefetch
from navi.losses import compute_losses
from navi.losses.total import StepSize
from navi.randomness import fold, make_key, order_keys
from navi.training.config import PretrainConfig
from navi.training.guesses import measure_guesses
from navi.training.memory import is_out_of_memory, release_memory
from navi.training.samples import describe_samples
from navi.training.step import Stepper, autocast

if TYPE_CHECKING:
    from navi.corpus import Corpus

Ints = NDArray[np.int64]
VALIDATION_EPOCH = -1
"""The epoch that validation masks are drawn for: no epoch of training has them."""
PROBE = MaskingConfig(header_share=0.25, value_share=0.25, token_share=0.0, mask_rate=1.0, random_rate=0.0)
"""What accuracies are measured with: a quarter of a row's headers and a quarter of its values hidden whole."""
INFORMED, BLIND = replace(PROBE, unknown_attribute_rate=0.0), replace(PROBE, unknown_attribute_rate=1.0)
GUESS_ROWS = 200_000
"""Training rows that the most frequent header and values are counted in, at most."""
_ONE = StepSize(num_targets=1, num_tables=1)


class Validation:
    """Measures a model on validation rows: masked loss, header accuracy informed and blind, value accuracy."""

    def __init__(self, corpus: Corpus, special: SpecialTokens, config: PretrainConfig) -> None:
        self._corpus, self._special = corpus, special
        self._seed = seed = config.training.seed
        self.rows = choose_rows(corpus.rows_of("validation"), config.training.validate_rows, seed)
        self._rows_per_batch = config.sampler.rows_per_batch
        self._workers = config.training.workers
        # Rows stand table after table, so that even distances show many tables.
        shown = min(config.training.sample_rows, len(self.rows))
        self._samples = self.rows[np.linspace(0, max(len(self.rows) - 1, 0), shown).astype(np.int64)]
        self._builders = {
            name: BatchBuilder(corpus.arrays, special, masking=masking, align=False, seed=seed)
            for name, masking in (("training", config.masking), ("informed", INFORMED), ("blind", BLIND))
        }

    def __call__(self, stepper: Stepper) -> dict[str, float]:
        """Return the measures; nothing where there are no validation rows."""
        if len(self.rows) == 0:
            return {}
        parts = [self.rows[i : i + self._rows_per_batch] for i in range(0, len(self.rows), self._rows_per_batch)]
        mine = parts[stepper.accelerator.process_index :: stepper.accelerator.num_processes]
        sums = {name: self._sum(stepper, builder, mine) for name, builder in self._builders.items()}
        return {
            "masked_loss": _ratio(sums["training"], 0, 1),
            "header_accuracy_informed": _ratio(sums["informed"], 2, 3),
            "header_accuracy_blind": _ratio(sums["blind"], 2, 3),
            "value_accuracy": _ratio(sums["informed"], 4, 5),
        }

    def measure_guesses(self) -> dict[str, float]:
        """Return the accuracies of the most frequent header and values on the same masks: what is to be beaten."""
        train = choose_rows(self._corpus.rows_of("train"), GUESS_ROWS, self._seed)
        return measure_guesses(
            self._corpus.arrays, train, self.rows, self._special, INFORMED, seed=self._seed, epoch=VALIDATION_EPOCH
        )

    def describe_samples(self, stepper: Stepper) -> str:
        """Return a few rows with what the model guesses in them, blind."""
        if len(self._samples) == 0:
            return ""
        builder = self._builders["blind"]
        return describe_samples(self._corpus, stepper, builder, self._samples, epoch=VALIDATION_EPOCH)

    def _sum(self, stepper: Stepper, builder: BatchBuilder, parts: list[Ints]) -> list[float]:
        stepper.model.eval()
        total = torch.zeros(6, device=stepper.device)
        for batch in prefetch(parts, lambda rows: builder.build(rows, epoch=VALIDATION_EPOCH), workers=self._workers):
            total += self._measure(stepper, builder, batch)
        summed: list[float] = stepper.accelerator.reduce(total, reduction="sum").tolist()
        return summed

    def _measure(self, stepper: Stepper, builder: BatchBuilder, batch: Batch) -> torch.Tensor:
        """Measure a batch, by halves if memory runs out."""
        try:
            return measure_batch(stepper, batch)
        except RuntimeError as error:
            if not is_out_of_memory(error) or len(batch.row_ids) == 1:
                raise
        release_memory()
        halves = np.array_split(batch.row_ids.numpy(), 2)
        first, second = (
            self._measure(stepper, builder, builder.build(rows, epoch=VALIDATION_EPOCH)) for rows in halves
        )
        return first + second


@torch.no_grad()
def measure_batch(stepper: Stepper, batch: Batch) -> torch.Tensor:
    """Return (6,): the loss and number of all targets, hits and number of header targets, and of value targets."""
    here = batch.to(stepper.device)
    with autocast(stepper.device, stepper.dtype):
        losses = compute_losses(stepper.model, stepper.model(here.rows), here, stepper.alignment, _ONE)
    kind = here.targets.kind
    counts = [torch.tensor(len(kind), device=kind.device), losses.header_hits, (kind == REGIME_HEADER).sum()]
    counts += [losses.value_hits, (kind == REGIME_VALUE).sum()]
    return torch.stack([losses.masked.float(), *(count.float() for count in counts)])


def choose_rows(rows: Ints, count: int, seed: int) -> Ints:
    """Return at most `count` of the rows, drawn evenly and always the same, in the corpus's order."""
    if len(rows) <= count:
        return rows
    keys = order_keys(fold(make_key(seed, VALIDATION_EPOCH), rows))
    return np.sort(rows[np.argsort(keys, kind="stable")[:count]])


def _ratio(sums: list[float], top: int, bottom: int) -> float:
    return sums[top] / max(sums[bottom], 1.0)
