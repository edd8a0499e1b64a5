"""Which values are numbers, and which, told from their tokens alone."""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]
LOG_SCALE = 5.0
"""What logarithms are divided by: numbers up to some thousands then lie within two of 0."""
_PIECE = re.compile(r"(##)?\d+|[-.,]")
_NUMBER = re.compile(r"(- )?(\d+|\d{1,3}( , \d{3})+)( \. \d+)?")


class NumberReader:
    """Reads numbers from tokens, so that any arrays of the same vocabulary can be read; remembers the latest ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._pieces = {number: piece for piece, number in vocabulary.items() if _PIECE.fullmatch(piece)}
        self._numeric = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        self._numeric[list(self._pieces)] = True
        self._lock = Lock()
        self._latest: tuple[SegmentArrays, Floats] | None = None

    def read(self, arrays: SegmentArrays) -> Floats:
        """Return each value as a number on a signed logarithmic scale, NaN for text: (V,)."""
        with self._lock:  # loader threads ask side by side, and one answer serves all
            if self._latest is None or self._latest[0].value_tokens is not arrays.value_tokens:
                self._latest = (arrays, self._read(arrays))
            return self._latest[1]

    def _read(self, arrays: SegmentArrays) -> Floats:
        offsets, tokens = arrays.value_offsets, arrays.value_tokens
        numbers = np.full(len(offsets) - 1, np.nan, dtype=np.float64)
        if len(numbers) == 0:
            return numbers.astype(np.float32)
        numeric = np.logical_and.reduceat(self._numeric[tokens], offsets[:-1])
        for value in np.flatnonzero(numeric).tolist():
            numbers[value] = self._parse(tokens[offsets[value] : offsets[value + 1]].tolist())
        logarithms: Floats = (np.sign(numbers) * np.log1p(np.abs(numbers)) / LOG_SCALE).astype(np.float32)
        return logarithms

    def _parse(self, tokens: list[int]) -> float:
        """Return the number that some tokens spell, NaN if they spell a date or a list."""
        text = " ".join(self._pieces[token] for token in tokens).replace(" ##", "")
        if not _NUMBER.fullmatch(text):
            return float("nan")
        return float(text.replace(" ", "").replace(",", ""))
