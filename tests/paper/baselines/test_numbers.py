"""Numbers from tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from navi_paper.baselines.numbers import LOG_SCALE, NumberReader


def encode(tokenizer, make_arrays, values):
    tokens = [tokenizer.encode(value, add_special_tokens=False).ids for value in values]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in tokens])])
    return replace(
        make_arrays(), value_offsets=offsets, value_tokens=np.array([t for each in tokens for t in each], np.int32)
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        ("1999", 1999),
        ("12345", 12345),
        ("3.5", 3.5),
        ("-12.25", -12.25),
        ("1,234,567.5", 1234567.5),
    ],
)
def test_a_number_is_read_on_a_signed_logarithmic_scale(corpus, make_arrays, text, number):
    found = NumberReader(corpus.tokenizer).read(encode(corpus.tokenizer, make_arrays, [text, "a"]))
    assert found[0] == pytest.approx(np.sign(number) * np.log1p(abs(number)) / LOG_SCALE, rel=1e-5)


@pytest.mark.parametrize("text", ["film", "2001-05-03", "1.2.3", "12 34", "7 films", "1,2", "5-6", "-", ".", "4k"])
def test_what_is_no_number_is_text(corpus, make_arrays, text):
    assert np.isnan(NumberReader(corpus.tokenizer).read(encode(corpus.tokenizer, make_arrays, [text, "1"]))[0])


def test_arrays_with_the_same_values_are_read_once(corpus, make_arrays):
    reader, arrays = NumberReader(corpus.tokenizer), encode(corpus.tokenizer, make_arrays, ["5"])
    assert reader.read(arrays) is reader.read(replace(arrays, row_segments=arrays.row_segments[::-1]))
    others = encode(corpus.tokenizer, make_arrays, ["6"])
    assert reader.read(others)[0] > reader.read(arrays)[0]


def test_no_values_are_no_numbers(corpus, make_arrays):
    assert len(NumberReader(corpus.tokenizer).read(encode(corpus.tokenizer, make_arrays, []))) == 0
