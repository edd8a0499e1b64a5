"""A runner that encodes each attribute once, however many batches and calls it comes in."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import FIRST_SLOT, Sequences
from navi.corpus.arrays import count_up, gather_ranges
from navi.model import NaviModel
from navi.model.runner import Runner

MAX_ATTRIBUTES = 100_000
"""Attributes that a cache holds before it begins anew."""


class AttributeCache:
    """Attribute vectors by the tokens of the attribute, for all threads; the model must not change meanwhile."""

    def __init__(self, model: NaviModel, device: torch.device) -> None:
        self._model, self._device = model, device
        self._vectors: dict[bytes, Tensor] = {}
        self._first: Tensor | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    def embed(self, attributes: Sequences) -> Tensor:
        """Return the attribute table of some packed attributes, (A + 2, D), encoding those alone that are new."""
        tokens, starts = attributes.token_ids.cpu().numpy(), attributes.starts.cpu().numpy().astype(np.int64)
        keys = [tokens[begin:end].tobytes() for begin, end in itertools.pairwise(starts)]
        with self._lock:
            return self._look_up(keys, tokens, starts)

    def _look_up(self, keys: list[bytes], tokens: NDArray[np.int64], starts: NDArray[np.int64]) -> Tensor:
        if len(self._vectors) > MAX_ATTRIBUTES:
            self._vectors = {}
        new = np.flatnonzero([key not in self._vectors for key in keys])
        if self._first is None or len(new):
            table = self._model.embed_attributes(pack_texts(starts, tokens, new).to(self._device))
            self._first = table[:FIRST_SLOT]
            self._vectors.update(zip([keys[place] for place in new], table[FIRST_SLOT:], strict=True))
        return torch.cat([self._first, *(self._vectors[key].unsqueeze(0) for key in keys)])


class CachingRunner(Runner):
    """A runner whose attribute vectors are made once and kept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attributes = AttributeCache(self.model, self.device)

    def _embed_attributes(self, attributes: Sequences) -> Tensor:
        return self.attributes.embed(attributes)


def pack_texts(offsets: NDArray[np.int64], tokens: NDArray[np.integer[Any]], chosen: NDArray[np.int64]) -> Sequences:
    """Return the chosen of some lists of tokens, packed; positions begin at 0 in each."""
    lengths, index = gather_ranges(offsets, chosen)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sequences(
        token_ids=torch.from_numpy(tokens[index].astype(np.int64)),
        token_position=torch.from_numpy(count_up(lengths)),
        starts=torch.from_numpy(starts.astype(np.int32)),
    )
