"""Texts to tokens, in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# A text longer than this many characters a token is first tried by its head: most of it would be cut away again.
_CHARACTERS_A_TOKEN = 12


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


def find_unknown(tokenizer: Tokenizer) -> int:
    """Return the id of the tokenizer's [UNK]."""
    for name in (getattr(tokenizer.model, "unk_token", None), "[UNK]", "<unk>"):
        token = None if name is None else tokenizer.token_to_id(name)
        if token is not None:
            return int(token)
    raise ModelError("The tokenizer has no token for the unknown; expected [UNK] or <unk> in its vocabulary.")


def tokenise(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> TokenLists:
    """Return the first `max_tokens` tokens of each text; a text without any becomes one [UNK].

    Text that spells a special token, such as `[SEP]`, is read as plain text.
    """
    unknown_id = find_unknown(tokenizer)
    limit = max_tokens * _CHARACTERS_A_TOKEN
    long = [place for place, text in enumerate(texts) if len(text) > limit]
    heads = list(texts)
    for place in long:
        heads[place] = _take_head(texts[place], limit)
    ids = _encode(heads, tokenizer)
    short = [place for place in long if len(ids[place]) <= max_tokens]
    for place, whole in zip(short, _encode([texts[place] for place in short], tokenizer), strict=True):
        ids[place] = whole
    return _collect([each or [unknown_id] for each in ids], max_tokens, unknown_id)


def _take_head(text: str, limit: int) -> str:
    # Cut between words, so that the head's tokens are the first tokens of the whole.
    return text[:limit].rpartition(" ")[0] or text


def _encode(texts: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    tokenizer.encode_special_tokens = True
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def _collect(ids: list[list[int]], max_tokens: int, unknown_id: int) -> TokenLists:
    whole = np.fromiter(map(len, ids), np.int64, len(ids))
    lengths = np.minimum(whole, max_tokens)
    kept = chain.from_iterable(each[:max_tokens] for each in ids)
    tokens = np.fromiter(kept, np.int32, int(lengths.sum()))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    unknown = np.concatenate([np.zeros(1, np.int32), np.cumsum(tokens == unknown_id, dtype=np.int32)])
    return TokenLists(
        offsets=offsets,
        tokens=tokens,
        unknown=unknown[offsets[1:]] - unknown[offsets[:-1]],
        cut=whole > max_tokens,
    )
