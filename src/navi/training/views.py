"""Texts of columns for each step of a run, and where the model had them before it learned anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import SpecialTokens, pack_texts
from navi.columns.texts import CLEAN, CLEAN_HEADER, FIRST_VIEW, NUM_TEXTS, NUM_VIEWS, ColumnViews, make_views
from navi.corpus.tokens import TextTokenizer
from navi.losses import ViewsBatch
from navi.model import NaviModel
from navi.model.runner import group_by_length
from navi.randomness import fold, make_key, uniform
from navi.training.config import PretrainConfig

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns of a step, N texts, D hidden size.

TOKENS_AT_ONCE = 16384
"""Tokens that are read at once before training."""


class StepViews:
    """Draws columns, two views of each, and a text that is as it is: a pure function of the seed and the step."""

    def __init__(self, corpus: Corpus, model: NaviModel, config: PretrainConfig, device: torch.device) -> None:
        self.views = make_views(corpus, TextTokenizer(corpus.tokenizer), corpus.rows_of("train"), config.training.seed)
        self._special = SpecialTokens.of(corpus.tokenizer)
        self._seed, self._num_columns = config.training.seed, config.views.columns_per_step
        self._steps_between = max(1, config.views.rows_between // config.sampler.rows_per_batch)
        self._targets = embed_clean(self.views, self._special, model, device)

    def is_due(self, step: int) -> bool:
        """Return whether a step has texts of columns."""
        return step % self._steps_between == 0

    def draw(self, step: int, process: int = 0) -> ViewsBatch:
        """Return the texts of one step."""
        key = make_key(self._seed, step, process)
        chosen = self.views.choose(self._num_columns, key)
        draws = uniform(fold(key, chosen))
        first = (draws * NUM_VIEWS).astype(np.int64)
        second = (first + 1 + (draws * NUM_VIEWS % 1 * (NUM_VIEWS - 1)).astype(np.int64)) % NUM_VIEWS
        kept = np.where(first % 2 == 0, CLEAN, CLEAN_HEADER)
        texts = [chosen * NUM_TEXTS + FIRST_VIEW + first, chosen * NUM_TEXTS + FIRST_VIEW + second]
        return ViewsBatch(
            texts=pack_texts(self.views.texts, np.concatenate([*texts, chosen * NUM_TEXTS + kept]), self._special),
            attribute=torch.from_numpy(self.views.attributes[chosen].astype(np.int64)),
            target=torch.from_numpy(self._targets[chosen, kept]),
        )


@torch.inference_mode()
def embed_clean(
    views: ColumnViews, special: SpecialTokens, model: NaviModel, device: torch.device
) -> NDArray[np.float16]:
    """Return the vectors of each column's texts that are as they are: (K, 2, D)."""
    texts = (np.arange(len(views))[:, None] * NUM_TEXTS + np.array([CLEAN, CLEAN_HEADER])).ravel()
    lengths = views.texts.lengths[texts]
    found = np.zeros((len(texts), model.config.hidden_size), np.float16)
    reader = model.to(device).eval()  # no dropout here; steps have it again
    for group in group_by_length(lengths, TOKENS_AT_ONCE):
        packed = pack_texts(views.texts, texts[group], special).to(device)
        found[group] = reader.embed_texts(packed).half().cpu().numpy()
    model.train()
    return found.reshape(len(views), 2, -1)
