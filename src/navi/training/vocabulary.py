"""The tokens of a vocabulary that rows are put together with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from navi.backbones import load_tokenizer
from navi.batches import SpecialTokens
from navi.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_RESERVED = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")


def find_special_tokens(tokenizer: Tokenizer) -> SpecialTokens:
    """Return the special tokens of a BERT vocabulary; raise `ModelError` if one is missing."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    missing = [token for token in ("[CLS]", "[SEP]", "[MASK]", ":") if token not in vocabulary]
    if missing:
        raise ModelError(f"The vocabulary has no {', '.join(missing)}. Expected that of a BERT-architecture backbone.")
    regular = sorted(number for token, number in vocabulary.items() if not _RESERVED.fullmatch(token))
    return SpecialTokens(
        cls=vocabulary["[CLS]"],
        sep=vocabulary["[SEP]"],
        colon=vocabulary[":"],
        mask=vocabulary["[MASK]"],
        regular=np.array(regular, dtype=np.int64),
    )


def check_vocabulary(tokenizer: Tokenizer, backbone: str) -> None:
    """Raise unless a corpus's tokens mean to a backbone what they meant to the one the corpus was prepared for."""
    if tokenizer.get_vocab() != load_tokenizer(backbone).get_vocab():
        raise ModelError(
            f"The corpus was tokenised with another vocabulary than that of the backbone '{backbone}'. "
            "Prepare it with the same backbone that it is pretrained from."
        )
