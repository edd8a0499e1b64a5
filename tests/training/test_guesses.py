"""The guesses that a model has to beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from navi.batches import REGIME_HEADER, BatchBuilder, SpecialTokens
from navi.corpus import Corpus
from navi.corpus.arrays import SegmentArrays
from navi.training.guesses import NO_TOKEN, find_most_frequent, measure_guesses
from navi.training.validation import INFORMED
from navi.training.vocabulary import find_special_tokens


def test_the_most_frequent_are_those_a_counter_finds(make_arrays: Callable[..., SegmentArrays]) -> None:
    arrays = make_arrays(num_rows=60, num_values=4)
    rows = np.arange(0, 60, 2)
    headers: Counter[int] = Counter()
    columns: dict[tuple[int, int], Counter[int]] = {}
    for row in rows:
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            header, value = int(arrays.segment_header[segment]), int(arrays.segment_value[segment])
            headers[header] += 1
            columns.setdefault((int(arrays.row_table[row]), header), Counter())[value] += 1
    header, value_K = find_most_frequent(arrays, rows)
    assert headers[header] == max(headers.values())
    for place, column in enumerate(zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True)):
        counted = columns.get(column)
        if counted is None:
            assert value_K[place] == NO_TOKEN
        else:
            assert counted[int(value_K[place])] == max(counted.values())


def test_a_column_with_one_value_is_always_guessed_right(
    make_arrays: Callable[..., SegmentArrays], special: SpecialTokens
) -> None:
    arrays = make_arrays(num_values=1)
    rows = np.arange(24)
    found = measure_guesses(arrays, rows, rows, special, INFORMED, seed=0, epoch=-1)
    assert found["most_frequent_value"] == 1.0


def test_the_header_guess_is_laid_over_the_span_token_by_token(toy_corpus: Corpus) -> None:
    arrays, special = toy_corpus.arrays, find_special_tokens(toy_corpus.tokenizer)
    rows = toy_corpus.rows_of("validation")
    found = measure_guesses(arrays, toy_corpus.rows_of("train"), rows, special, INFORMED, seed=0, epoch=-1)
    builder = BatchBuilder(arrays, special, masking=INFORMED)
    layout = builder.lay_out(rows)
    _, targets = builder.mask_layout(layout, epoch=-1)
    where = targets.position[targets.kind == REGIME_HEADER].tolist()
    # The most frequent headers of the toy corpus, genre, language and year, are of one token each.
    (guess,) = arrays.header_tokens[slice(*arrays.header_offsets[find_most_frequent(arrays, rows)[0] :][:2])]
    hits = [layout.token_ids[t] == guess and layout.token_position[t] == 0 for t in where]
    assert found["most_frequent_header"] == pytest.approx(np.mean(hits))
    assert 0.0 < found["most_frequent_header"] < 1.0
