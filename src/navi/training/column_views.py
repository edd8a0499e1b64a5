"""Texts of columns and rows for each step of a run, and where the model had them before it learned anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import SpecialTokens, pack_texts
from navi.columns.texts import CLEAN, CLEAN_HEADER, FIRST_VIEW, make_views
from navi.corpus.tokens import TextTokenizer
from navi.losses import ViewsBatch
from navi.model import NaviModel, Runner
from navi.randomness import fold, make_key, permute, uniform
from navi.training.config import PretrainConfig

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns of a step, N texts, D hidden size.

HELD_OUT_SHARE, MAX_HELD_OUT, MAX_RIVALS = 0.125, 32, 256
"""Share of the columns, and how many at most, that are measured and not learned; columns they are compared with."""


class StepViews:
    """Draws columns and rows, two views of each, and a text as it is: a pure function of the seed and the step.

    Some columns are never drawn: validation asks whether these are found again.
    """

    def __init__(self, corpus: Corpus, model: NaviModel, config: PretrainConfig, device: torch.device) -> None:
        self._seed, self._num_columns = config.training.seed, config.views.columns_per_step
        tokenizer, num_views = TextTokenizer(corpus.tokenizer), config.views.num_views
        self.views = make_views(corpus, tokenizer, corpus.rows_of("train"), num_views, self._seed)
        num_columns = self.views.num_columns
        num_held_out = min(MAX_HELD_OUT, int(HELD_OUT_SHARE * num_columns))
        self.held_out = permute(make_key(self._seed, -1), num_columns)[:num_held_out]
        """The columns that are measured and not learned."""
        self._special = SpecialTokens.of(corpus.tokenizer)
        self._steps_between = max(1, config.views.rows_between // config.sampler.rows_per_batch)
        clean = (np.arange(len(self.views))[:, None] * self.views.num_texts + np.array([CLEAN, CLEAN_HEADER])).ravel()
        vectors = self._embed(clean, model, device)
        self._targets = vectors.astype(np.float16).reshape(len(self.views), 2, -1)

    def is_due(self, step: int) -> bool:
        """Return whether a step has texts of columns."""
        return step % self._steps_between == 0

    def draw(self, step: int, rank: int = 0, count: int = 1) -> ViewsBatch:
        """Return the texts of one step, or what one of so many processes reads of them."""
        key, num_texts = make_key(self._seed, step, 0), self.views.num_texts
        drawn = self.views.choose(self._num_columns + len(self.held_out), key)
        drawn = drawn[~np.isin(drawn, self.held_out)][: self._num_columns]
        chosen = np.array_split(drawn, count)[rank]
        draws = uniform(fold(make_key(key, -1), chosen)) * (num_views := num_texts - FIRST_VIEW)
        first = draws.astype(np.int64)
        second = (first + 1 + (draws % 1 * (num_views - 1)).astype(np.int64)) % num_views
        kept = np.where(first % 2 == 0, CLEAN, CLEAN_HEADER)
        texts = [chosen * num_texts + place for place in (FIRST_VIEW + first, FIRST_VIEW + second, kept)]
        return ViewsBatch(
            texts=pack_texts(self.views.texts.offsets, self.views.texts.tokens, np.concatenate(texts), self._special),
            meaning=torch.from_numpy(self.views.meanings[drawn]),
            target=torch.from_numpy(self._targets[chosen, kept]),
        )

    def measure_columns(self, model: NaviModel, device: torch.device) -> dict[str, float]:
        """Return how often a perturbed view of a held-out column is most like that column among many; nothing of few.

        A column of the same attribute is as good: nobody knows whether it means something else.
        """
        if len(self.held_out) == 0:
            return {}
        others = np.setdiff1d(np.arange(self.views.num_columns), self.held_out)[:MAX_RIVALS]
        columns = np.concatenate([self.held_out, others])
        queries = (self.held_out[:, None] * self.views.num_texts + np.arange(FIRST_VIEW, self.views.num_texts)).ravel()
        candidate_KD = self._embed(columns * self.views.num_texts + CLEAN, model, device)
        candidate_KD /= np.linalg.norm(candidate_KD, axis=1, keepdims=True)
        nearest = columns[(self._embed(queries, model, device) @ candidate_KD.T).argmax(axis=1)]
        meanings = self.views.meanings
        return {"column_accuracy": float((meanings[nearest] == meanings[queries // self.views.num_texts]).mean())}

    def _embed(self, texts: NDArray[np.int64], model: NaviModel, device: torch.device) -> NDArray[np.float32]:
        """Return the vectors of some texts: (N, D)."""
        was_training = model.training
        runner = Runner(model, self._special, devices=[device], precision="float32", tokens_per_batch=4096)
        found = runner.embed_texts(self.views.texts, texts)
        model.train(was_training)  # a runner has no dropout
        return found
