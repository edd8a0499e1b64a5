"""An early look: what a model puts in the place of a masked header or value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import REGIME_HEADER, Batch, BatchBuilder
from navi.corpus.arrays import gather_ranges
from navi.training.step import Stepper, autocast

if TYPE_CHECKING:
    from navi.corpus import Corpus

SAMPLES_FILE = "samples.txt"

Ints = NDArray[np.int64]


def describe_samples(corpus: Corpus, stepper: Stepper, builder: BatchBuilder, rows: Ints, *, epoch: int) -> str:
    """Return rows as lines of text, one a segment, with the model's guess beside each masked header or value."""
    batch = builder.build(rows, epoch=epoch)
    notes = _note_guesses(corpus, batch, guess_tokens(stepper, batch))
    arrays = corpus.arrays
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segment_row = np.repeat(np.arange(len(rows)), lengths)
    lines: list[str] = []
    for place, segment in enumerate(arrays.row_segments[cells].tolist()):
        if place == 0 or segment_row[place] != segment_row[place - 1]:
            row = rows[segment_row[place]]
            lines.append(f"{corpus.tables[arrays.row_table[row]]}, row {corpus.row_number[row]}")
        header = corpus.headers[int(arrays.segment_header[segment])].as_py()
        value = corpus.values[int(arrays.segment_value[segment])].as_py()
        lines.append(f"    {header} : {value}" + notes.get(place, ""))
    return "\n".join(lines) + "\n"


@torch.no_grad()
def guess_tokens(stepper: Stepper, batch: Batch) -> list[int]:
    """Return the likeliest token at each target of a batch."""
    stepper.model.eval()
    here = batch.to(stepper.device)
    with autocast(stepper.device, stepper.dtype):
        logits = stepper.model.predict_tokens(stepper.model(here.rows), here.targets.position)
    guessed: list[int] = logits.argmax(dim=1).tolist()
    return guessed


def _note_guesses(corpus: Corpus, batch: Batch, guessed: list[int]) -> dict[int, str]:
    """Return a remark for each segment of the batch with something masked."""
    segments = (batch.rows.token_span[batch.targets.position] // 2).tolist()
    spans: dict[int, list[int]] = {}
    kinds: dict[int, int] = {}
    for segment, token, kind in zip(segments, guessed, batch.targets.kind.tolist(), strict=True):
        spans.setdefault(segment, []).append(token)
        kinds[segment] = kind
    names = {segment: "header" if kind == REGIME_HEADER else "value" for segment, kind in kinds.items()}
    return {
        segment: f"    <- {names[segment]} hidden, guessed: {corpus.tokenizer.decode(tokens)}"
        for segment, tokens in spans.items()
    }
