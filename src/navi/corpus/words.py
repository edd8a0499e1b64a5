"""Words to tokens: each distinct word goes through the tokenizer once."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus.columns import gather_lists
from navi.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAX_WORDS = 200_000
"""Words remembered; at some 150 bytes each that bounds a process's memory."""
_WORDS_A_TEXT = 500
_SEPARATORS = "|¦§¶†‡"
# BERT makes every punctuation character a word of its own, and ignores case or not; to do both before words are told
# apart leaves far fewer of them: no "Drama," beside "drama", and of a price or an address only its parts.
_PUNCTUATION = r"([[:punct:]])"


def find_unknown(tokenizer: Tokenizer) -> int:
    """Return the id of the tokenizer's [UNK]."""
    for name in (getattr(tokenizer.model, "unk_token", None), "[UNK]", "<unk>"):
        token = None if name is None else tokenizer.token_to_id(name)
        if token is not None:
            return int(token)
    raise ModelError("The tokenizer has no token for the unknown; expected [UNK] or <unk> in its vocabulary.")


def is_word_by_word(tokenizer: Tokenizer) -> bool:
    """Tell whether the tokens of a text are surely those of its words, one after another, as BERT's are."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    if tuple(type(part).__name__ for part in parts) != ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        return False
    # Added tokens that are not special are looked for in the whole text, spaces and punctuation included.
    return all(token.special for token in tokenizer.get_added_tokens_decoder().values())


def encode(texts: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Return the tokens of each text, none added; text that spells a special token is plain text."""
    before = tokenizer.encode_special_tokens
    tokenizer.encode_special_tokens = True
    try:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    finally:
        tokenizer.encode_special_tokens = before


class WordTokenizer:
    """Tokenises texts word by word, and remembers the words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        ids = {sign: encode([sign], tokenizer)[0] for sign in _SEPARATORS}
        unknown = find_unknown(tokenizer)
        self._separators = {sign: each[0] for sign, each in ids.items() if len(each) == 1 and each[0] != unknown}
        self._forget()

    def encode(self, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the number of tokens of each text, and the tokens of all."""
        spaced = pc.replace_substring_regex(pa.array(texts, pa.string()), _PUNCTUATION, r" \1 ")
        words = pc.split_pattern(pc.ascii_lower(spaced) if self._tokenizer.normalizer.lowercase else spaced, " ")
        distinct = pc.dictionary_encode(words.flatten())
        numbers = self._number(distinct.dictionary.to_pylist())[distinct.indices.to_numpy()]
        lengths, tokens = gather_lists(self._offsets, self._tokens, numbers)
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return np.diff(running[words.offsets.to_numpy()]), tokens

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._offsets = np.zeros(1, np.int64)
        self._tokens = np.zeros(0, np.int32)

    def _number(self, words: list[str]) -> NDArray[np.int64]:
        """Return the number of each word; new ones are tokenised."""
        if len(self._numbers) > _MAX_WORDS:
            self._forget()
        new = [word for word in words if word not in self._numbers]
        self._numbers.update(zip(new, range(len(self._numbers), len(self._numbers) + len(new)), strict=True))
        self._learn(new)
        return np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))

    def _learn(self, words: list[str]) -> None:
        """Tokenise new words, many in one text: that costs half of handing them over one by one."""
        groups = [words[begin : begin + _WORDS_A_TEXT] for begin in range(0, len(words), _WORDS_A_TEXT)]
        signs = [self._choose_separator(group) for group in groups]
        texts = [f" {sign} ".join(group) for group, sign in zip(groups, signs, strict=True)]
        lengths, tokens = [np.diff(self._offsets)], [self._tokens]
        for group, sign, ids in zip(groups, signs, encode(texts, self._tokenizer), strict=True):
            parts = self._split(np.array(ids, np.int32), sign, len(group)) or self._encode_each(group)
            lengths.append(parts[0])
            tokens.append(parts[1])
        self._offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
        self._tokens = np.concatenate(tokens)

    def _choose_separator(self, words: list[str]) -> str | None:
        text = "".join(words)
        return next((sign for sign in self._separators if sign not in text), None)

    def _split(
        self, ids: NDArray[np.int32], sign: str | None, num_words: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Take the tokens of a group apart at the separators, or return None if their number is not as it should be."""
        if sign is None:
            return None
        is_separator = ids == self._separators[sign]
        places = np.flatnonzero(is_separator)
        if len(places) != num_words - 1:
            return None
        return np.diff(np.concatenate([[-1], places, [len(ids)]])) - 1, ids[~is_separator]

    def _encode_each(self, words: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        ids = encode(words, self._tokenizer)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return lengths, np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
