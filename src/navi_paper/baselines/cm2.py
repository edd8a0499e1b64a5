"""CM2: a cell as one feature, a row as a set of features, some of them masked and reconstructed."""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.model.attention import Packing, pack_attention
from navi.model.encoder import pool_spans
from navi.randomness import fold, make_key, uniform
from navi_paper.baselines.base import LAYERS, Baseline, Batch, to_tensors
from navi_paper.baselines.text import Cells
from navi_paper.table_encoder import Bools, Floats, Hidden, Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: R rows, C cells, M masked cells, D hidden size.

MASKED_SHARE = 0.25
"""Share of the features that are masked and reconstructed."""
LOG_SCALE = 5.0
"""What logarithms are divided by: numbers up to some thousands then lie within two of 0."""
_PIECE = re.compile(r"(##)?\d+|[-.,]")
_NUMBER = re.compile(r"(- )?(\d+|\d{1,3}( , \d{3})+)( \. \d+)?")


class Cm2(Baseline):
    """The backbone's layers over a [CLS] feature and one feature a cell; without positions, order leaves no trace.

    A feature is the mean of the header's words plus that of the value's words; a number scales its header's mean and
    adds a bias instead. In place of a masked value stands the mask.
    """

    name = "cm2"
    abilities = frozenset()
    new_parameters = ("text_decoder.", "number_decoder.", "number_bias")

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        width = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.encoder = nn.ModuleList(BertLayer(config, layer_idx=i) for i in range(config.num_hidden_layers))
        pack_attention(self.encoder)
        self.cls = nn.Parameter(torch.zeros(width))
        self.mask = nn.Parameter(torch.zeros(width))
        self.number_bias = nn.Parameter(torch.zeros(width))
        self.text_decoder = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.number_decoder = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.numbers = NumberReader(tokenizer)

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over words, layers and the norm of embeddings; [CLS] and the mask start as those words."""
        names = {
            "word_embeddings.weight": "words.weight",
            "LayerNorm.weight": "norm.weight",
            "LayerNorm.bias": "norm.bias",
        }
        renamed = {new: weights[f"embeddings.{old}"] for old, new in names.items()}
        renamed |= {
            f"encoder.{name.removeprefix(LAYERS)}": tensor
            for name, tensor in weights.items()
            if name.startswith(LAYERS)
        }
        self.load_state_dict(renamed, strict=False)
        with torch.no_grad():
            self.cls.copy_(self.words.weight[self.special.cls])
            self.mask.copy_(self.words.weight[self.special.mask])
            # The norm after it would take away what a number scales, were there nothing else.
            self.number_bias.normal_(std=float(self.words.weight.std()))

    def make_batch(self, arrays: SegmentArrays, rows: Ints, *, seed: int, epoch: int) -> Batch:
        """Return rows with some values masked, and which."""
        cells = Cells(arrays, rows)
        keys = fold(fold(make_key(seed, epoch), rows)[cells.row], cells.rank)
        return self._pack(arrays, cells, None, uniform(keys) < MASKED_SHARE)

    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the mean over masked features: one less the cosine for text, the smooth distance for numbers."""
        header_CD, value_CD = self._embed_parts(batch)
        states_MD = self._encode(batch, header_CD, value_CD)[1].index_select(0, batch["target_position"])
        number_M = batch["number"].index_select(0, batch["target_position"])
        is_text = number_M.isnan()
        # The target stands still: words that came to meet their guesses would all become one.
        target_MD = value_CD.detach().index_select(0, batch["target_position"])
        apart_M = 1 - F.cosine_similarity(self.text_decoder(states_MD).float(), target_MD.float(), dim=1)
        guessed_M = self.number_decoder(states_MD).float().squeeze(1)
        off_M = F.smooth_l1_loss(guessed_M, number_M.nan_to_num(), reduction="none")
        return torch.where(is_text, apart_M, off_M).sum() / max(1, len(is_text))

    def make_input(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Batch:
        """Return rows with the hidden headers, or values, masked."""
        cells = Cells(arrays, rows)
        masked = {} if hidden is None else {hidden.part: hidden.cells}
        return self._pack(arrays, cells, masked.get("header"), masked.get("value"))

    def read_states(self, batch: Batch) -> Batch:
        """Return the state of [CLS], and that of each feature, which stands for header, value and both."""
        rows_RD, cells_CD = self._encode(batch, *self._embed_parts(batch))
        kept = torch.ones_like(batch["cell_row"])
        return {"rows": rows_RD, "headers": cells_CD, "values": cells_CD, "segments": cells_CD, "kept": kept}

    def reconstruct(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> tuple[Floats, Floats]:
        """Return each hidden value, as decoded, and its own feature; headers by their states."""
        if hidden.part == "header":
            return super().reconstruct(arrays, rows, hidden)
        both = np.zeros((2, len(hidden.cells), self.config.hidden_size), dtype=np.float32)

        def read(batch: Batch) -> Batch:
            header_CD, value_CD = self._embed_parts(batch)
            states_CD = self._encode(batch, header_CD, value_CD)[1]
            number_C1 = self.number_decoder(states_CD).float()
            as_number = number_C1 * header_CD.float() + self.number_bias.float()
            is_text = batch["number"].isnan().unsqueeze(1)
            guessed_CD = torch.where(is_text, self.text_decoder(states_CD).float(), as_number)
            return {"both": torch.stack([guessed_CD, value_CD.float()])}

        for _, cells, _, found in self.run(arrays, rows, hidden, read):
            both[:, cells] = found["both"].cpu().numpy()
        return both[0, hidden.cells], both[1, hidden.cells]

    def _pack(self, arrays: SegmentArrays, cells: Cells, header: Bools | None, value: Bools | None) -> Batch:
        """Return words by cell, numbers, where features stand, and which of them have header or value masked."""
        num_cells, num_rows = len(cells.row), len(cells.rows)
        nothing = np.zeros(num_cells, dtype=bool)
        header_length, header_index = gather_ranges(arrays.header_offsets, cells.header)
        value_length, value_index = gather_ranges(arrays.value_offsets, cells.value)
        ends_R = np.cumsum(np.bincount(cells.row, minlength=num_rows))
        value_masked = nothing if value is None else value
        return to_tensors(
            header_ids=arrays.header_tokens[header_index],
            header_cell=np.repeat(np.arange(num_cells), header_length),
            value_ids=arrays.value_tokens[value_index],
            value_cell=np.repeat(np.arange(num_cells), value_length),
            number=self.numbers.read(arrays)[cells.value],
            cell_row=cells.row,
            cell_place=np.arange(num_cells) + cells.row + 1,
            row_starts=np.concatenate([[0], ends_R + np.arange(1, num_rows + 1)]),
            header_masked=nothing if header is None else header,
            value_masked=value_masked,
            target_position=np.flatnonzero(value_masked),
        )

    def _embed_parts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the features of headers, and of values as if none were masked: (C, D) each."""
        num_cells = len(batch["cell_row"])
        header_CD = pool_spans(self.words(batch["header_ids"]), batch["header_cell"], num_cells)
        header_CD = torch.where(batch["header_masked"].unsqueeze(1), self.mask.float(), header_CD)
        text_CD = pool_spans(self.words(batch["value_ids"]), batch["value_cell"], num_cells)
        number_C1 = batch["number"].unsqueeze(1)
        scaled_CD = number_C1.nan_to_num() * header_CD + self.number_bias.float()
        return header_CD, torch.where(number_C1.isnan(), text_CD, scaled_CD)

    def _encode(self, batch: Batch, header_CD: Tensor, value_CD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of [CLS] and of the cells' features: (R, D) and (C, D)."""
        place_C, starts = batch["cell_place"], batch["row_starts"]
        num_features = len(place_C) + len(starts) - 1
        seen_CD = header_CD + torch.where(batch["value_masked"].unsqueeze(1), self.mask.float(), value_CD)
        features = self.cls.float().expand(num_features, -1).index_copy(0, place_C, seen_CD)
        hidden = self.dropout(self.norm(features.to(self.norm.weight.dtype))).unsqueeze(0)
        packing = Packing(starts, num_features)
        for layer in self.encoder:
            hidden = layer(hidden, packing=packing)
        states = hidden.squeeze(0)
        return states.index_select(0, starts[:-1]), states.index_select(0, place_C)


class NumberReader:
    """Reads numbers from tokens, so that any arrays of the same vocabulary can be read; remembers the latest ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._pieces = {number: piece for piece, number in vocabulary.items() if _PIECE.fullmatch(piece)}
        self._numeric = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        self._numeric[list(self._pieces)] = True
        self._lock = Lock()
        self._latest: tuple[SegmentArrays, Floats] | None = None

    def read(self, arrays: SegmentArrays) -> Floats:
        """Return each value as a number on a signed logarithmic scale, NaN for text: (V,)."""
        with self._lock:  # loader threads ask side by side, and one answer serves all
            if self._latest is None or self._latest[0].value_tokens is not arrays.value_tokens:
                self._latest = (arrays, self._read(arrays.value_offsets, arrays.value_tokens))
            return self._latest[1]

    def _read(self, offsets: Ints, tokens: NDArray[np.int32]) -> Floats:
        numbers = np.full(len(offsets) - 1, np.nan)
        # Of no values there is no first one, where `reduceat` would begin.
        numeric = np.logical_and.reduceat(self._numeric[tokens], offsets[:-1]) if len(numbers) else ()
        for value in np.flatnonzero(numeric).tolist():
            pieces = (self._pieces[token] for token in tokens[offsets[value] : offsets[value + 1]].tolist())
            text = " ".join(pieces).replace(" ##", "")
            if _NUMBER.fullmatch(text):  # neither a date nor a list
                numbers[value] = float(text.replace(" ", "").replace(",", ""))
        logarithms: Floats = (np.sign(numbers) * np.log1p(np.abs(numbers)) / LOG_SCALE).astype(np.float32)
        return logarithms
