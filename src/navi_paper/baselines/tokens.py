"""Baselines that learn by guessing masked tokens."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from navi.corpus.arrays import SegmentArrays, count_up
from navi.model.pooling import pool_spans
from navi_paper.baselines.baseline import Baseline, Batch, to_tensors
from navi_paper.baselines.text import Text, find_hidden, mask_tokens
from navi_paper.encoder import Floats, Hidden, Ints, list_hidden_tokens

# Shape suffixes: R rows, C cells, T tokens (packed), M masked tokens, D hidden size, V vocabulary.


class TokenBaseline(Baseline):
    """Writes a row as a text, masks 15 % of its header and value tokens, and guesses them."""

    @abstractmethod
    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return rows as texts, each cut to what the encoder takes."""

    @abstractmethod
    def encode(self, batch: Batch) -> Tensor:
        """Return contextual token embeddings: (T, D)."""

    @abstractmethod
    def score_tokens(self, states_MD: Tensor) -> Tensor:
        """Return the logits of every token: (M, V)."""

    def pack(self, text: Text, token_ids: Ints) -> Batch:
        """Return what `encode` and `read_states` take."""
        return to_tensors(
            token_ids=token_ids,
            token_position=text.token_position,
            token_span=text.token_span,
            row_starts=text.row_starts,
            cell_row=text.cells.row,
        )

    def make_batch(self, arrays: SegmentArrays, rows: Ints, *, seed: int, epoch: int) -> Batch:
        """Return rows with some tokens masked, where those stand, and what they were."""
        text = self.write(arrays, rows)
        token_ids, target_M = mask_tokens(text, self.special, seed=seed, epoch=epoch)
        return self.pack(text, token_ids) | to_tensors(target_position=target_M, target_token=text.token_ids[target_M])

    def count_targets(self, batch: Batch) -> int:
        """Return the number of masked tokens."""
        return len(batch["target_token"])

    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the masked tokens."""
        return self.score_targets(self.encode(batch), batch)

    def score_targets(self, states_TD: Tensor, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the masked tokens, given the states of all."""
        logits_MV = self.score_tokens(states_TD.index_select(0, batch["target_position"]))
        total = F.cross_entropy(logits_MV.float(), batch["target_token"], reduction="sum")
        return total / max(1, self.count_targets(batch))

    def make_input(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Batch:
        """Return rows with the hidden tokens masked, one [MASK] each, and where those stand."""
        text = self.write(arrays, rows)
        hidden_M = find_hidden(text, hidden)
        token_ids = text.token_ids.copy()
        token_ids[hidden_M] = self.special.mask
        return self.pack(text, token_ids) | to_tensors(hidden_position=hidden_M)

    def read_states(self, batch: Batch) -> Batch:
        """Return [CLS] states, and means over the tokens of headers, values, and both together."""
        states_TD, span_T = self.encode(batch), batch["token_span"]
        num_cells = len(batch["cell_row"])
        spans = pool_spans(states_TD, span_T, 2 * num_cells)
        # Half of the highest span is the number of cells: what belongs to no cell stays so.
        segments_CD = pool_spans(states_TD, span_T // 2, num_cells)
        kept = span_T.new_zeros(num_cells + 1).index_fill(0, span_T // 2, 1)[:num_cells]
        return {
            "rows": states_TD.index_select(0, batch["row_starts"][:-1]),
            "headers": spans[0::2],
            "values": spans[1::2],
            "segments": segments_CD,
            "kept": kept,
        }

    def predict(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Ints:
        """Return the likeliest token at each hidden token, cell after cell; -1 where the cell was cut."""
        guessed = np.full((_count_hidden(arrays, rows, hidden), 1), -1, dtype=np.int64)
        self._read_hidden(arrays, rows, hidden, lambda logits_MV: logits_MV.argmax(dim=1, keepdim=True), guessed)
        return guessed[:, 0]

    def predict_log(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, tokens: Ints) -> Floats:
        """Return the log-probability of each of these tokens at each hidden token; where the cell was cut, of any."""
        chosen = torch.from_numpy(np.ascontiguousarray(tokens, dtype=np.int64)).to(self.device)
        nothing = -math.log(self.config.vocab_size)
        found = np.full((_count_hidden(arrays, rows, hidden), len(tokens)), nothing, dtype=np.float32)
        self._read_hidden(
            arrays,
            rows,
            hidden,
            lambda logits_MV: torch.log_softmax(logits_MV.float(), dim=1).index_select(1, chosen),
            found,
        )
        return found

    def _read_hidden(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, read: Callable[[Tensor], Tensor], out: NDArray[Any]
    ) -> None:
        """Write what is read from the logits at each hidden token into its line of `out`."""
        _, lengths = list_hidden_tokens(arrays, rows, hidden)
        first_C = np.zeros(len(hidden.cells), dtype=np.int64)
        first_C[hidden.cells] = np.cumsum(lengths) - lengths

        def read_batch(batch: Batch) -> Batch:
            return {"found": read(self.score_tokens(self.encode(batch).index_select(0, batch["hidden_position"])))}

        for _, cells, batch, found in self.run(arrays, rows, hidden, read_batch):
            spans, counts = np.unique(batch["token_span"][batch["hidden_position"]].numpy(), return_counts=True)
            places = np.repeat(first_C[cells[spans // 2]], counts) + count_up(counts)
            out[places] = found["found"].cpu().numpy()


def _count_hidden(arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> int:
    return len(list_hidden_tokens(arrays, rows, hidden)[0])
