"""A NAVI model behind the interface that every evaluated encoder has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from navi.backbones import load_tokenizer
from navi.batches import Layout, Masks, SpecialTokens
from navi.corpus.arrays import SegmentArrays, count_up
from navi.model.runner import Runner
from navi.verbs.loading import open_model
from navi_paper.encoder import Floats, Hidden, Ints, TableEncoder, list_hidden_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from navi.batches import Rows
    from navi.model.encoder import NaviOutput

# Shape suffixes: R rows, C cells, S segments of a batch, T tokens, D hidden size.

Bools = NDArray[np.bool_]


class NaviTables(TableEncoder):
    """A NAVI model; attributes are told to it, except those of headers hidden blind."""

    def __init__(self, runner: Runner, *, name: str = "navi") -> None:
        self.name = name
        self.runner = runner

    @classmethod
    def from_folder(
        cls, path: str | Path, *, name: str = "navi", device: str | None = None, precision: str | None = None
    ) -> Self:
        """Open a model directory that `navi pretrain` wrote."""
        folder = Path(path)
        special = SpecialTokens.of(load_tokenizer(folder))
        return cls(Runner(open_model(folder), special, device=device, precision=precision), name=name)

    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings: (R, D) for rows and means, (C, D) for headers, values and segments."""
        # Numbered from 0 as they are asked for, rows tell their places, and one may be asked for twice.
        taken = arrays.take_rows(rows)
        mask = None if hidden is None else Hiding(taken, hidden, self.runner.special.mask).mask
        return self.runner.embed(taken, parts=parts, mask=mask)

    def embed_states(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None = None) -> tuple[Floats, Floats]:
        """Return the states in context of each cell's header and value: (C, D) each."""
        found = self.embed(arrays, rows, parts=("header_states", "values"), hidden=hidden)
        return found["header_states"], found["values"]

    def predict(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Ints:
        """Return the likeliest token at each hidden token: (T,), cell after cell."""
        found = self._read_hidden(arrays, rows, hidden, 1, lambda logits: logits.argmax(dim=1, keepdim=True))
        return found[:, 0].astype(np.int64)

    def predict_log(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, tokens: Ints) -> Floats:
        """Return the log-probability of each of these tokens at each hidden token: (T, len(tokens))."""
        import torch

        chosen = torch.from_numpy(np.ascontiguousarray(tokens, dtype=np.int64)).to(self.runner.device)
        return self._read_hidden(
            arrays,
            rows,
            hidden,
            len(tokens),
            lambda logits: torch.log_softmax(logits, dim=1).index_select(1, chosen),
        )

    def _read_hidden(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, width: int, read: Callable[[Tensor], Tensor]
    ) -> Floats:
        """Return what `read` makes of the logits at each hidden token: (T, width)."""
        taken = arrays.take_rows(rows)
        hiding = Hiding(taken, hidden, self.runner.special.mask)

        def read_logits(output: NaviOutput, _: Rows, layout: Layout) -> dict[str, Tensor]:
            places = hiding.find_tokens(layout).to(output.tokens.device)
            return {"found": read(self.runner.model.predict_tokens(output, places).float())}

        gathered = np.zeros((hiding.num_tokens, width), dtype=np.float32)
        for _, layout, found in self.runner.run(taken, np.arange(len(rows)), read_logits, mask=hiding.mask):
            gathered[hiding.find_places(layout)] = found["found"]
        return gathered


class Hiding:
    """Finds the hidden cells of rows numbered from 0 in any batch of them."""

    def __init__(self, arrays: SegmentArrays, hidden: Hidden, mask_token: int) -> None:
        assert len(hidden.cells) == len(arrays.row_segments), "there is one answer for each cell of the rows"
        self._hidden = hidden
        self._mask_token = mask_token
        _, lengths = list_hidden_tokens(arrays, np.arange(arrays.num_rows), hidden)
        self._lengths_C = np.zeros(len(hidden.cells), dtype=np.int64)
        self._lengths_C[hidden.cells] = lengths
        self._starts_C = np.cumsum(self._lengths_C) - self._lengths_C
        self.num_tokens = int(lengths.sum())

    def mask(self, layout: Layout) -> Masks:
        """Put [MASK] in the place of what is hidden, and make the attributes of headers hidden blind unknown."""
        import torch

        hidden_S = self._hidden.cells[layout.segment_cell.numpy()]
        return Masks(
            token_ids=torch.where(self._mark_tokens(layout), self._mask_token, layout.token_ids),
            unknown=torch.from_numpy(hidden_S & (self._hidden.part == "header" and self._hidden.blind)),
        )

    def find_tokens(self, layout: Layout) -> Tensor:
        """Return the places of the hidden tokens on a batch's token axis, ascending."""
        return self._mark_tokens(layout).nonzero().squeeze(1)

    def find_places(self, layout: Layout) -> Ints:
        """Return where these tokens stand among the hidden tokens of all rows."""
        cells = layout.segment_cell.numpy()
        cells = cells[self._hidden.cells[cells]]
        lengths = self._lengths_C[cells]
        return np.repeat(self._starts_C[cells], lengths) + count_up(lengths)

    def _mark_tokens(self, layout: Layout) -> Tensor:
        """Return which tokens are hidden: those in the hidden part of a hidden cell."""
        import torch

        hidden_S = torch.from_numpy(self._hidden.cells[layout.segment_cell.numpy()])
        part = torch.tensor([self._hidden.part == "header", self._hidden.part == "value"])
        hidden_P = torch.cat([(hidden_S[:, None] & part).view(-1), torch.zeros(1, dtype=torch.bool)])
        return hidden_P[layout.token_span]
