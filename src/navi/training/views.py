"""Texts of columns for each step of a run, and where the model had them before it learned anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import SpecialTokens, pack_texts
from navi.columns.texts import CLEAN, CLEAN_HEADER, FIRST_VIEW, NUM_TEXTS, NUM_VIEWS, make_views
from navi.corpus.tokens import TextTokenizer
from navi.losses import ViewsBatch
from navi.model import NaviModel
from navi.model.runner import group_by_length
from navi.randomness import fold, make_key, order_keys, uniform
from navi.training.config import PretrainConfig

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns of a step, N texts, D hidden size.

TOKENS_AT_ONCE = 4096
"""Tokens that are read at once before training: on a CPU a second or so."""
HELD_OUT_SHARE, MAX_HELD_OUT, MAX_RIVALS = 0.125, 32, 256
"""Share of the columns, and how many at most, that are measured and not learned; columns they must be told from."""


class StepViews:
    """Draws columns, two views of each, and a text that is as it is: a pure function of the seed and the step.

    Some columns are never drawn: validation asks whether these are found again.
    """

    def __init__(self, corpus: Corpus, model: NaviModel, config: PretrainConfig, device: torch.device) -> None:
        self._seed, self._num_columns = config.training.seed, config.views.columns_per_step
        self.views = make_views(corpus, TextTokenizer(corpus.tokenizer), corpus.rows_of("train"), self._seed)
        num_held_out = min(MAX_HELD_OUT, int(HELD_OUT_SHARE * len(self.views)))
        keys = order_keys(fold(make_key(self._seed, -1), np.arange(len(self.views))))
        self.held_out = np.argsort(keys, kind="stable")[:num_held_out]
        """The columns that are measured and not learned."""
        self._special = SpecialTokens.of(corpus.tokenizer)
        self._steps_between = max(1, config.views.rows_between // config.sampler.rows_per_batch)
        clean = (np.arange(len(self.views))[:, None] * NUM_TEXTS + np.array([CLEAN, CLEAN_HEADER])).ravel()
        vectors = self._embed(clean, model, device)
        self._targets = vectors.astype(np.float16).reshape(len(self.views), 2, -1)

    def is_due(self, step: int) -> bool:
        """Return whether a step has texts of columns."""
        return step % self._steps_between == 0

    def draw(self, step: int, rank: int = 0, count: int = 1) -> ViewsBatch:
        """Return the texts of one step, or what one of so many processes reads of them."""
        key = make_key(self._seed, step, 0)
        drawn = self.views.choose(len(self.views), key)
        drawn = drawn[~np.isin(drawn, self.held_out)][: self._num_columns]
        chosen = np.array_split(drawn, count)[rank]
        draws = uniform(fold(key, chosen))
        first = (draws * NUM_VIEWS).astype(np.int64)
        second = (first + 1 + (draws * NUM_VIEWS % 1 * (NUM_VIEWS - 1)).astype(np.int64)) % NUM_VIEWS
        kept = np.where(first % 2 == 0, CLEAN, CLEAN_HEADER)
        texts = [chosen * NUM_TEXTS + FIRST_VIEW + first, chosen * NUM_TEXTS + FIRST_VIEW + second]
        return ViewsBatch(
            texts=pack_texts(self.views.texts, np.concatenate([*texts, chosen * NUM_TEXTS + kept]), self._special),
            attribute=torch.from_numpy(self.views.attributes[drawn].astype(np.int64)),
            target=torch.from_numpy(self._targets[chosen, kept]),
        )

    def measure_columns(self, model: NaviModel, device: torch.device) -> dict[str, float]:
        """Return how often a perturbed view of a held-out column is most like that column among many; nothing of few.

        A column of the same attribute is as good: nobody knows whether it means something else.
        """
        if len(self.held_out) == 0:
            return {}
        others = np.setdiff1d(np.arange(len(self.views)), self.held_out)[:MAX_RIVALS]
        columns = np.concatenate([self.held_out, others])
        queries = (self.held_out[:, None] * NUM_TEXTS + np.arange(FIRST_VIEW, NUM_TEXTS)).ravel()
        candidate_KD = self._embed(columns * NUM_TEXTS + CLEAN, model, device)
        candidate_KD /= np.linalg.norm(candidate_KD, axis=1, keepdims=True)
        nearest = columns[(self._embed(queries, model, device) @ candidate_KD.T).argmax(axis=1)]
        attributes = self.views.attributes
        return {"column_accuracy": float((attributes[nearest] == attributes[queries // NUM_TEXTS]).mean())}

    @torch.inference_mode()
    def _embed(self, texts: NDArray[np.int64], model: NaviModel, device: torch.device) -> NDArray[np.float32]:
        """Return the vectors of some texts: (N, D)."""
        found = np.zeros((len(texts), model.config.hidden_size), np.float32)
        was_training, reader = model.training, model.to(device).eval()  # no dropout here
        for group in group_by_length(self.views.texts.lengths[texts], TOKENS_AT_ONCE):
            packed = pack_texts(self.views.texts, texts[group], self._special).to(device)
            found[group] = reader.embed_texts(packed).float().cpu().numpy()
        model.train(was_training)
        return found
