"""Tokens back to text as a column spells it: its capitals, its spaces, its signs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from navi.verbs.guessing.generation import CONTINUATION

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SAMPLE = 500
"""Cells that spelling is learnt from, at most."""
_WORD, _NUMBER = "a", "1"
_NO_SPACE_BEFORE, _NO_SPACE_AFTER = frozenset(",.;:!?)]}%'\u2019"), frozenset("([{$\u00a3\u20ac#@'\u2019")


class Spelling:
    """Writes tokens as the cells of a column are written.

    A tokenizer may drop capitals and spaces. What a column's cells have in the place of each token, and between two
    kinds of tokens, brings them back; a word that no cell has gets the capitals that most of the column's words have.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        pieces: defaultdict[int, Counter[str]] = defaultdict(Counter)
        between: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        styles: Counter[str] = Counter()
        for text in _sample(texts):
            encoding = tokenizer.encode(text, add_special_tokens=False)
            last, end = None, 0
            for token, number, (first, after) in zip(encoding.tokens, encoding.ids, encoding.offsets, strict=True):
                pieces[number][text[first:after]] += 1
                if last is not None:
                    between[last, _kind(token)][text[end:first]] += 1
                if not token.startswith(CONTINUATION) and _kind(token) == _WORD:
                    styles[_style(text[first:after])] += 1
                last, end = _kind(token), after
        self._pieces = {number: _most_common(counter) for number, counter in pieces.items()}
        self._between = {pair: _most_common(counter) for pair, counter in between.items()}
        self._style = _most_common(styles) if styles else "lower"

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text of a value."""
        written: list[str] = []
        last: str | None = None
        for number in tokens:
            token = self._tokenizer.id_to_token(number) or ""
            continues = token.startswith(CONTINUATION)
            kind = _kind(token)
            if last is not None and not continues:
                written.append(self._between.get((last, kind), _default_space(last, kind)))
            piece = self._pieces.get(number)
            written.append(piece if piece is not None else self._capitalise(token, continues))
            last = kind
        return "".join(written).strip()

    def _capitalise(self, token: str, continues: bool) -> str:
        text = token.removeprefix(CONTINUATION)
        if self._style == "upper":
            return text.upper()
        return text.capitalize() if self._style == "title" and not continues else text


def _sample(texts: Sequence[str]) -> Sequence[str]:
    return texts if len(texts) <= SAMPLE else [texts[i * len(texts) // SAMPLE] for i in range(SAMPLE)]


def _kind(token: str) -> str:
    """Return what decides the space beside a token: a sign itself, else whether it is a number or a word."""
    text = token.removeprefix(CONTINUATION)
    if text.isdigit():
        return _NUMBER
    return text if len(text) == 1 and not text.isalnum() else _WORD


def _style(piece: str) -> str:
    if len(piece) > 1 and piece.isupper():
        return "upper"
    return "title" if piece[:1].isupper() else "lower"


def _most_common(counter: Counter[str]) -> str:
    """Return the most frequent text, the smallest of equals."""
    return min(counter, key=lambda text: (-counter[text], text))


def _default_space(last: str, kind: str) -> str:
    return "" if kind in _NO_SPACE_BEFORE or last in _NO_SPACE_AFTER or last in "-/" or kind in "-/" else " "
