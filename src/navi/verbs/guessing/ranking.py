"""How likely a model holds each value of a set for a gap, from one pass for each number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import Layout, Rows
from navi.corpus.arrays import SegmentArrays
from navi.model.encoder import NaviOutput
from navi.model.runner import Runner
from navi.verbs.guessing.gaps import Gaps, Ints, open_gaps
from navi.verbs.guessing.valueset import ValueSet

# Shape suffixes: M gaps, P gaps asked with one number of tokens, T masked tokens, V vocabulary, N values of a set.

Scores = NDArray[np.float32]


class ValueScorer:
    """Sums the log-probabilities of each value's tokens, all of them masked at once."""

    def __init__(self, runner: Runner, arrays: SegmentArrays) -> None:
        self._runner, self._arrays = runner, arrays

    def score(self, gaps: Gaps, sets: Sequence[ValueSet], set_M: Ints, lengths: Sequence[Ints]) -> list[Scores]:
        """Return for each gap the log-likelihood of each value of its set, -inf for lengths that were not asked.

        `set_M` (M,) says which of the sets is a gap's, `lengths` which numbers of tokens to ask for in each gap.
        """
        asked = [(gap, int(length)) for gap, some in enumerate(lengths) for length in some]
        scores = [np.full(len(sets[number]), -np.inf, np.float32) for number in set_M.tolist()]
        if not asked:
            return scores
        gap_P, length_P = np.array(asked, dtype=np.int64).T
        offsets = np.concatenate([[0], np.cumsum(length_P)])
        mask = np.full(offsets[-1], self._runner.special.mask, np.int32)
        arrays = open_gaps(self._arrays, gaps.take(gap_P), offsets, mask)
        pairs = {(int(set_M[gap]), length) for gap, length in asked}
        groups = {pair: self._gather(sets[pair[0]], pair[1]) for pair in pairs}

        def read(output: NaviOutput, rows: Rows, layout: Layout) -> dict[str, Tensor]:
            positions = find_masks(layout, self._runner.special.mask, rows.token_ids.device)
            logits_TV = self._runner.model.predict_tokens(output, positions)
            logp_TV = torch.log_softmax(logits_TV.float(), dim=1)
            asked = layout.rows.numpy()
            starts = np.cumsum(length_P[asked]) - length_P[asked]
            for number, length in {(int(set_M[gap_P[p]]), int(length_P[p])) for p in asked}:
                same = (set_M[gap_P[asked]] == number) & (length_P[asked] == length)
                members, tokens = groups[number, length]
                first = torch.from_numpy(starts[same]).to(logp_TV.device)
                summed = sum_tokens(logp_TV, first, tokens).cpu().numpy()
                for p, found in zip(asked[same].tolist(), summed, strict=True):
                    scores[gap_P[p]][members] = found
            return {}

        for _ in self._runner.run(arrays, np.arange(len(gap_P)), read):
            pass
        return scores

    def _gather(self, values: ValueSet, length: int) -> tuple[Ints, Tensor]:
        """Return the values of a length: their numbers and tokens, (N, length)."""
        members = np.flatnonzero(values.lengths == length)
        tokens = torch.tensor([values.tokens[number] for number in members.tolist()], dtype=torch.long)
        return members, tokens.to(self._runner.device)


def find_masks(layout: Layout, mask: int, device: torch.device) -> Tensor:
    """Return the places of all [MASK] tokens, row after row."""
    return (layout.token_ids == mask).nonzero().squeeze(1).to(device)


def sum_tokens(logp_TV: Tensor, first: Tensor, tokens: Tensor) -> Tensor:
    """Return the summed log-probabilities of token sequences (N, n) from each first place (B,) on: (B, N)."""
    summed = logp_TV.new_zeros(len(first), len(tokens))
    for place in range(tokens.shape[1]):
        summed += logp_TV[first + place][:, tokens[:, place]]
    return summed
