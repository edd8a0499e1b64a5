"""Texts to tokens, in bulk: each distinct word goes through the tokenizer once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from navi.corpus.arrays import count_up, gather_ranges
from navi.errors import ModelError

Lists = tuple[NDArray[np.int64], NDArray[np.int32]]
"""The length of each list, and all lists laid out flat."""
MAX_WORDS = 1 << 15
"""Words remembered, at some 150 bytes each: a process has them after some ten thousand rows, and grows no further."""
SEPARATOR = "|"
"""Sign between words that go to the tokenizer as one text."""
WORDS_A_TEXT = 500
"""Words of such a text: enough that a text costs nothing, few enough to share among cores."""
CHARACTERS_A_TOKEN = 8
"""A text longer than this many characters a token is first tried by its head: most of it would be cut away again."""
# BERT makes every punctuation character a word of its own, and ignores case or not; to do both before words are told
# apart leaves far fewer of them: no "Drama," beside "drama", and of a price or an address only its parts.
_PUNCTUATION = r"([[:punct:]])"


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
    """Tokenises texts in bulk, and remembers the words it has met where the tokenizer goes word by word."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._unknown = find_unknown(tokenizer)
        separator = tokenizer.token_to_id(SEPARATOR) if _goes_word_by_word(tokenizer) else None
        self._separator = None if separator == self._unknown else separator
        self._numbers: dict[str, int] = {}
        """Words met, and the place of each among the lists of tokens; the first is the separator."""
        self._offsets, self._tokens = np.zeros(1, np.int64), np.zeros(0, np.int32)

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> TokenLists:
        """Return the first `max_tokens` tokens of each text; a text without any becomes one [UNK].

        Text that spells a special token, such as `[SEP]`, is read as plain text.
        """
        limit = max_tokens * CHARACTERS_A_TOKEN
        heads = list(texts)
        long = np.flatnonzero(np.fromiter(map(len, texts), np.int64, len(texts)) > limit).tolist()
        for place in long:
            # Cut between words, so that the head's tokens are the first tokens of the whole.
            heads[place] = texts[place][:limit].rpartition(" ")[0] or texts[place]
        lengths, tokens = self._encode(heads)
        # Where the head gave too few tokens, the rest matters after all.
        short = [place for place in long if lengths[place] <= max_tokens and len(heads[place]) < len(texts[place])]
        if short:
            more_lengths, more_tokens = self._encode([texts[place] for place in short])
            which = np.arange(len(texts))
            which[short] = len(texts) + np.arange(len(short))
            ends = np.cumsum(np.concatenate([[0], lengths, more_lengths]))
            lengths, places = gather_ranges(ends, which)
            tokens = np.concatenate([tokens, more_tokens])[places]
        return self._cut(lengths, tokens, max_tokens)

    def _encode(self, texts: list[str]) -> Lists:
        if self._separator is None:
            return self._encode_whole(texts)
        spaced = pc.replace_substring_regex(pa.array(texts, pa.string()), _PUNCTUATION, r" \1 ")
        words = pc.split_pattern(pc.ascii_lower(spaced) if self._tokenizer.normalizer.lowercase else spaced, " ")
        distinct = pc.dictionary_encode(words.flatten())
        numbers = self._number_words(distinct.dictionary.to_pylist())[distinct.indices.to_numpy()]
        lengths, places = gather_ranges(self._offsets, numbers)
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return np.diff(running[words.offsets.to_numpy()]), self._tokens[places]

    def _encode_whole(self, texts: list[str]) -> Lists:
        before = self._tokenizer.encode_special_tokens
        self._tokenizer.encode_special_tokens = True
        try:
            ids = [found.ids for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        finally:
            self._tokenizer.encode_special_tokens = before
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return lengths, np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))

    def _number_words(self, words: list[str]) -> NDArray[np.int64]:
        """Return the number of each word; new ones are tokenised."""
        if not 0 < len(self._numbers) <= MAX_WORDS:
            self._numbers = {SEPARATOR: 0}
            self._offsets, self._tokens = np.array([0, 1]), np.array([self._separator], np.int32)
        new = [word for word in words if word not in self._numbers]
        if new:
            lengths, tokens = self._encode_words(new)
            self._numbers.update(zip(new, range(len(self._numbers), len(self._numbers) + len(new)), strict=True))
            self._offsets = np.concatenate([self._offsets, self._offsets[-1] + np.cumsum(lengths)])
            self._tokens = np.concatenate([self._tokens, tokens])
        return np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))

    def _encode_words(self, words: list[str]) -> Lists:
        """Return what `_encode_whole` does, in half the time: many words in one text, a separator after each.

        The separator is punctuation, so it is part of no word, and it is remembered from the start, so it is none.
        """
        groups = [words[begin : begin + WORDS_A_TEXT] for begin in range(0, len(words), WORDS_A_TEXT)]
        _, tokens = self._encode_whole([f" {SEPARATOR} ".join([*group, ""]) for group in groups])
        is_separator = tokens == self._separator
        return np.diff(np.flatnonzero(is_separator), prepend=-1) - 1, tokens[~is_separator]

    def _cut(self, lengths: NDArray[np.int64], tokens: NDArray[np.int32], max_tokens: int) -> TokenLists:
        """Give texts without tokens one [UNK], and keep the first `max_tokens` of each."""
        tokens = np.insert(tokens, np.cumsum(lengths)[lengths == 0], self._unknown)
        lengths = np.maximum(lengths, 1)
        tokens = tokens[count_up(lengths) < max_tokens]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(lengths, max_tokens))])
        running = np.concatenate([np.zeros(1, np.int32), np.cumsum(tokens == self._unknown, dtype=np.int32)])
        return TokenLists(
            offsets=offsets,
            tokens=tokens,
            unknown=running[offsets[1:]] - running[offsets[:-1]],
            cut=lengths > max_tokens,
        )


def find_unknown(tokenizer: Tokenizer) -> int:
    """Return the id of the tokenizer's [UNK]."""
    for name in (getattr(tokenizer.model, "unk_token", None), "[UNK]", "<unk>"):
        token = None if name is None else tokenizer.token_to_id(name)
        if token is not None:
            return int(token)
    raise ModelError("The tokenizer has no token for the unknown; expected [UNK] or <unk> in its vocabulary.")


def _goes_word_by_word(tokenizer: Tokenizer) -> bool:
    """Return whether the tokens of a text are surely those of its words, one after another, as BERT's are."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    if tuple(type(part).__name__ for part in parts) != ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        return False
    # Added tokens that are not special are looked for in the whole text, spaces and punctuation included.
    return all(token.special for token in tokenizer.get_added_tokens_decoder().values())
