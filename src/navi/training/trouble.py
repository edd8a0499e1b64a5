"""What to tell a user when a run cannot go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from navi.training.step import StepBatches

if TYPE_CHECKING:
    from navi.corpus import Corpus

MAX_NAMED = 20
"""Rows of a table that a message names, at most."""


def explain_bad_steps(corpus: Corpus, made: StepBatches, step: int, in_a_row: int) -> str:
    """Say that the loss is not finite, and with which rows."""
    return (
        f"The loss was not finite {in_a_row} steps in a row; stopped at step {step}, the weights as before them. "
        f"The last batch: {name_rows(corpus, made)}. Look for damaged values there, or lower the learning rates."
    )


def name_rows(corpus: Corpus, made: StepBatches) -> str:
    """Name the rows of a step by their tables and their numbers in them."""
    rows = np.sort(np.concatenate(made.parts))
    table = corpus.arrays.row_table[rows]
    named = []
    for number in np.unique(table):
        members = corpus.row_number[rows[table == number]]
        listed = ", ".join(map(str, members[:MAX_NAMED].tolist()))
        more = f" and {len(members) - MAX_NAMED} more" if len(members) > MAX_NAMED else ""
        named.append(f"{corpus.tables[number]} rows {listed}{more}")
    return "; ".join(named)


def explain_lack_of_memory(made: StepBatches, step: int, num_processes: int) -> str | None:
    """Say why a step that memory ran out in cannot be taken in smaller parts; None if it can be."""
    num_tokens, rows = max(zip(made.part_tokens, made.parts, strict=True), key=lambda part: part[0])
    if num_processes > 1:
        return (
            f"Memory ran out at step {step + 1}, and several processes cannot change their parts on the way. "
            "Start anew with smaller batches (rows_per_batch or tokens_per_batch)."
        )
    if len(rows) == 1:
        return (
            f"Memory ran out at step {step + 1} for a single row of {num_tokens} tokens. "
            "Prepare the corpus with fewer max_tokens, or take a smaller backbone."
        )
    return None
