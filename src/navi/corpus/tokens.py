"""Texts to tokens, in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.corpus.columns import gather_lists
from navi.corpus.words import WordTokenizer, encode, find_unknown, is_word_by_word

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# A text longer than this many characters a token is first tried by its head: most of it would be cut away again.
_CHARACTERS_A_TOKEN = 8


@dataclass(frozen=True, kw_only=True)
class TokenLists:
    """The tokens of N texts, one list after another."""

    offsets: NDArray[np.int64]
    """(N + 1,) where each text's tokens begin."""
    tokens: NDArray[np.int32]
    """Tokens of all texts, at least one each."""
    unknown: NDArray[np.int32]
    """(N,) how many of a text's tokens are [UNK]."""
    cut: NDArray[np.bool_]
    """(N,) whether a text had more tokens than were kept."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) number of tokens of each text."""
        return np.diff(self.offsets)

    def take(self, part: slice) -> TokenLists:
        """Return the tokens of some texts, one after another."""
        begin, end = self.offsets[part.start], self.offsets[part.stop]
        return TokenLists(
            offsets=self.offsets[part.start : part.stop + 1] - begin,
            tokens=self.tokens[begin:end],
            unknown=self.unknown[part],
            cut=self.cut[part],
        )


class TextTokenizer:
    """Tokenises texts in bulk, and remembers the words it has met where that is possible."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._unknown = find_unknown(tokenizer)
        self._words = WordTokenizer(tokenizer) if is_word_by_word(tokenizer) else None

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> TokenLists:
        """Return the first `max_tokens` tokens of each text; a text without any becomes one [UNK].

        Text that spells a special token, such as `[SEP]`, is read as plain text.
        """
        limit = max_tokens * _CHARACTERS_A_TOKEN
        heads = list(texts)
        cut = np.flatnonzero(np.fromiter(map(len, texts), np.int64, len(texts)) > limit).tolist()
        for place in cut:
            heads[place] = _take_head(texts[place], limit)
        lengths, tokens = self._encode(heads)
        # Where the head gave too few tokens, the rest matters after all.
        short = [place for place in cut if lengths[place] <= max_tokens and len(heads[place]) < len(texts[place])]
        if short:
            more_lengths, more_tokens = self._encode([texts[place] for place in short])
            which = np.arange(len(texts))
            which[short] = len(texts) + np.arange(len(short))
            ends = np.cumsum(np.concatenate([[0], lengths, more_lengths]))
            lengths, tokens = gather_lists(ends, np.concatenate([tokens, more_tokens]), which)
        return _cut(*_fill(lengths, tokens, self._unknown), max_tokens, self._unknown)

    def _encode(self, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        if self._words is not None:
            return self._words.encode(texts)
        ids = encode(texts, self._tokenizer)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return lengths, np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))


def _take_head(text: str, limit: int) -> str:
    # Cut between words, so that the head's tokens are the first tokens of the whole.
    return text[:limit].rpartition(" ")[0] or text


def _fill(
    lengths: NDArray[np.int64], tokens: NDArray[np.int32], unknown: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Give texts without tokens one [UNK]."""
    empty = np.flatnonzero(lengths == 0)
    ends = np.cumsum(lengths)
    return np.maximum(lengths, 1), np.insert(tokens, ends[empty], unknown)


def _cut(lengths: NDArray[np.int64], tokens: NDArray[np.int32], max_tokens: int, unknown: int) -> TokenLists:
    """Keep the first `max_tokens` tokens of each text."""
    place = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    tokens = tokens[place < max_tokens]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(lengths, max_tokens))])
    running = np.concatenate([np.zeros(1, np.int32), np.cumsum(tokens == unknown, dtype=np.int32)])
    return TokenLists(
        offsets=offsets,
        tokens=tokens,
        unknown=running[offsets[1:]] - running[offsets[:-1]],
        cut=lengths > max_tokens,
    )
