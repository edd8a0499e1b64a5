"""Values that no list holds: tokens put into a gap, the most certain first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import Layout, Rows
from navi.corpus.arrays import SegmentArrays, count_up
from navi.model.encoder import NaviOutput
from navi.model.runner import Runner
from navi.verbs.guessing.gaps import Gaps, Ints, open_gaps
from navi.verbs.guessing.ranking import find_masks

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: M gaps, T tokens of all gaps, V vocabulary.

CONTINUATION = "##"
"""How a token begins that continues a word."""


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What was put into some gaps."""

    offsets: Ints
    """(M + 1,) first token of each gap."""
    tokens: Ints
    """(T,) the tokens."""
    log_probability: NDArray[np.float64]
    """(T,) log-probability of each token when it was put in."""

    def of(self, gap: int) -> tuple[tuple[int, ...], NDArray[np.float64]]:
        """Return the tokens of a gap and their log-probabilities."""
        part = slice(self.offsets[gap], self.offsets[gap + 1])
        return tuple(self.tokens[part].tolist()), self.log_probability[part]


class Generator:
    """Fills gaps of a given number of tokens in a few rounds; each round keeps the tokens it is surest of."""

    def __init__(self, runner: Runner, arrays: SegmentArrays, tokenizer: Tokenizer) -> None:
        self._runner, self._arrays = runner, arrays
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        size = int(runner.model.config.vocab_size)
        allowed = np.zeros((2, size), dtype=bool)
        allowed[:, runner.special.regular] = True
        allowed[1, [number for token, number in vocabulary.items() if token.startswith(CONTINUATION)]] = False
        self._barred = torch.from_numpy(~allowed).to(runner.device)

    def generate(self, gaps: Gaps, lengths: Ints, rounds: int) -> Generated:
        """Return values of `lengths` (M,) tokens, put in within at most `rounds` passes."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        tokens = np.full(offsets[-1], self._runner.special.mask, np.int64)
        log_probability = np.zeros(offsets[-1])
        begins = count_up(lengths) == 0
        for left in range(rounds, 0, -1):
            empty = np.flatnonzero(tokens == self._runner.special.mask)
            if not len(empty):
                break
            gap_T = np.searchsorted(offsets, empty, side="right") - 1
            best, logp = self._predict(gaps, offsets, tokens, begins)
            chosen = choose_surest(gap_T, logp, left)
            tokens[empty[chosen]], log_probability[empty[chosen]] = best[chosen], logp[chosen]
        return Generated(offsets=offsets, tokens=tokens, log_probability=log_probability)

    def _predict(
        self, gaps: Gaps, offsets: Ints, tokens: Ints, begins: NDArray[np.bool_]
    ) -> tuple[Ints, NDArray[np.float64]]:
        """Return the likeliest token of each masked place, in order, and its log-probability."""
        special, model = self._runner.special, self._runner.model
        open_T = tokens == special.mask
        count_M = np.add.reduceat(open_T, offsets[:-1])
        waiting = np.flatnonzero(count_M)
        parts = [np.arange(offsets[gap], offsets[gap + 1]) for gap in waiting]
        part_offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        arrays = open_gaps(self._arrays, gaps.take(waiting), part_offsets, tokens[np.concatenate(parts)])
        begins_open = begins[open_T]
        first_P = np.cumsum(count_M[waiting]) - count_M[waiting]
        best, logp = np.zeros(int(open_T.sum()), np.int64), np.zeros(int(open_T.sum()))

        def read(output: NaviOutput, rows: Rows, layout: Layout) -> dict[str, Tensor]:
            asked = layout.rows.numpy()
            lengths = count_M[waiting][asked]
            where = np.repeat(first_P[asked], lengths) + count_up(lengths)
            logits_TV = model.predict_tokens(output, find_masks(layout, special.mask, rows.token_ids.device)).float()
            barred = self._barred[torch.from_numpy(begins_open[where].astype(np.int64)).to(logits_TV.device)]
            found = torch.log_softmax(logits_TV, dim=1).masked_fill(barred, -torch.inf).max(dim=1)
            best[where], logp[where] = found.indices.cpu().numpy(), found.values.double().cpu().numpy()
            return {}

        for _ in self._runner.run(arrays, np.arange(len(waiting)), read):
            pass
        return best, logp


def choose_surest(gap_T: Ints, logp_T: NDArray[np.float64], rounds_left: int) -> Ints:
    """Return the places to fill now: of each gap an even share of what is left, the surest first.

    >>> choose_surest(np.array([0, 0, 0, 1]), np.array([-3.0, -1.0, -2.0, -4.0]), 2).tolist()
    [1, 2, 3]
    """
    order = np.lexsort((-logp_T, gap_T))
    sizes = np.bincount(gap_T)[np.unique(gap_T)]
    quota = -(-sizes // rounds_left)
    return np.sort(order[count_up(sizes) < np.repeat(quota, sizes)])
