"""What a user is told when a run cannot go on."""

from __future__ import annotations

import numpy as np
import pytest

from navi.batches import BatchBuilder
from navi.corpus import Corpus
from navi.losses.total import measure_step
from navi.training.step import StepBatches
from navi.training.trouble import explain_bad_steps, explain_lack_of_memory, name_rows
from navi.training.vocabulary import find_special_tokens


def make_step(corpus: Corpus, *parts: list[int]) -> StepBatches:
    builder = BatchBuilder(corpus.arrays, find_special_tokens(corpus.tokenizer))
    batches = [builder.build(np.array(rows), epoch=0) for rows in parts]
    return StepBatches(
        parts=[np.array(rows) for rows in parts],
        part_tokens=[batch.num_tokens for batch in batches],
        batches=batches,
        size=measure_step(batches),
        capacity=None,
        epoch=0,
        num_tokens=0,
    )


def test_rows_are_named_by_table_and_number(toy_corpus: Corpus) -> None:
    made = make_step(toy_corpus, [45, 2], [40])
    number = toy_corpus.row_number
    assert name_rows(toy_corpus, made) == f"films0 rows {number[2]}; films1 rows {number[40]}, {number[45]}"


def test_many_rows_are_counted_instead(toy_corpus: Corpus) -> None:
    assert name_rows(toy_corpus, make_step(toy_corpus, list(range(25)))).endswith(" and 5 more")


def test_a_loss_that_is_not_finite_is_told_with_its_rows(toy_corpus: Corpus) -> None:
    told = explain_bad_steps(toy_corpus, make_step(toy_corpus, [0]), step=12, in_a_row=3)
    assert told.startswith("The loss was not finite 3 steps in a row; stopped at step 12")
    assert f"films0 rows {toy_corpus.row_number[0]}." in told


@pytest.mark.parametrize(
    ("parts", "num_processes", "expected"),
    [
        ([[0, 1]], 1, None),
        ([[0, 1], [2]], 1, None),
        ([[0], [1]], 1, "for a single row of"),
        ([[0, 1]], 2, "several processes cannot change their parts"),
    ],
)
def test_a_step_can_be_cut_while_a_part_has_two_rows(
    toy_corpus: Corpus, parts: list[list[int]], num_processes: int, expected: str | None
) -> None:
    told = explain_lack_of_memory(make_step(toy_corpus, *parts), 0, num_processes)
    assert told is None if expected is None else expected in (told or "")
