"""BERT over a row as plain text; and what every baseline does that reads rows as texts and predicts masked tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from navi.batches import SpecialTokens, pack_texts
from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges
from navi.model.attention import Packing, pack_attention
from navi.model.encoder import add_equally, embed_tokens, pool_sequences, pool_spans
from navi.model.runner import group_by_length
from navi.randomness import choose_below, fold, make_key, uniform
from navi_paper.baselines.base import TOKENS_PER_BATCH, Baseline, Batch, copy_weights, to_tensors
from navi_paper.table_encoder import (
    IN_VARIANTS,
    PREDICTS_TOKENS,
    Bools,
    Floats,
    Hidden,
    Ints,
    TableEncoder,
    offset_hidden,
    scatter,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: R rows, C cells, T tokens (packed), M masked tokens, D hidden size, V vocabulary.

TOKEN_SHARE, MASK_RATE, RANDOM_RATE = 0.15, 0.8, 0.1
"""BERT's own masking: of the tokens that are to be predicted, most become [MASK], some another word."""
_CHOOSE, _REPLACE, _RANDOM = range(3)


class Cells:
    """The cells of some rows, row after row: the row of each, from 0, its place there, header and value."""

    def __init__(self, arrays: SegmentArrays, rows: Ints) -> None:
        counts_R, cells = gather_ranges(arrays.row_offsets, rows)
        segments = arrays.row_segments[cells]
        self.rows, self.row, self.rank = rows, np.repeat(np.arange(len(rows)), counts_R), count_up(counts_R)
        self.header = arrays.segment_header[segments].astype(np.int64)
        self.value = arrays.segment_value[segments].astype(np.int64)
        self.header_length = arrays.header_offsets[self.header + 1] - arrays.header_offsets[self.header]
        self.value_length = arrays.value_offsets[self.value + 1] - arrays.value_offsets[self.value]

    def sum_before(self, lengths_C: Ints) -> Ints:
        """Return the sum of the lengths of the cells before each one in its row: (C,)."""
        before_C = np.cumsum(lengths_C) - lengths_C
        return before_C - before_C[np.searchsorted(self.row, self.row)]

    def sum_rows(self, lengths_C: Ints | Bools) -> Ints:
        """Return the sum of the lengths over each row: (R,)."""
        return np.bincount(self.row, weights=lengths_C, minlength=len(self.rows)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Text:
    """The tokens of some rows on one axis, row after row."""

    cells: Cells
    """The cells of the rows; those that were cut have no tokens here."""
    row_starts: Ints
    """(R + 1,) first token of each row."""
    token_ids: Ints
    """(T,) the tokens."""
    token_span: Ints
    """(T,) 2c for the header of cell c, 2c + 1 for its value, 2C for what belongs to neither."""

    @property
    def token_position(self) -> Ints:
        """(T,) place of each token in its row."""
        return count_up(np.diff(self.row_starts))

    @property
    def is_word(self) -> Bools:
        """(T,) whether the token is part of a header or a value."""
        found: Bools = self.token_span < 2 * len(self.cells.row)
        return found


@dataclass(frozen=True, kw_only=True)
class Template:
    """What stands around the headers and values of a row."""

    begin: tuple[int, ...]
    before: tuple[int, ...] = ()
    """Stands before each header."""
    between: tuple[int, ...]
    """Stands between a header and its value."""
    after: tuple[int, ...] = ()
    """Stands after each value."""
    separator: tuple[int, ...]
    """Stands between two cells."""
    end: tuple[int, ...]


def write_text(arrays: SegmentArrays, rows: Ints, template: Template, limit: int) -> Text:
    """Return rows written after a template, none of more than `limit` tokens: what is too long loses its last cells."""
    cells = Cells(arrays, rows)
    around = sum(map(len, (template.before, template.between, template.after, template.separator)))
    length_C = cells.header_length + cells.value_length + around
    room = limit - len(template.begin) - len(template.end) + len(template.separator)
    kept = cells.sum_before(length_C) + length_C <= room
    length_C = np.where(kept, length_C, 0)
    length_R = cells.sum_rows(length_C) + len(template.begin) + len(template.end)
    # The last cell has no separator.
    length_R -= len(template.separator) * (cells.sum_rows(kept) > 0)
    row_starts = np.concatenate([[0], np.cumsum(length_R)])
    start_C = row_starts[cells.row] + len(template.begin) + cells.sum_before(length_C)
    header_C = start_C + len(template.before)
    value_C = header_C + cells.header_length + len(template.between)
    text = place_words(arrays, cells, kept, row_starts, header_C, value_C)
    end_C = (value_C + cells.value_length)[kept]
    _fill(text.token_ids, row_starts[:-1], template.begin)
    _fill(text.token_ids, start_C[kept], template.before)
    _fill(text.token_ids, value_C[kept] - len(template.between), template.between)
    _fill(text.token_ids, end_C, template.after)
    # After a row's last cell this stands where the row ends, and is written over.
    _fill(text.token_ids, end_C + len(template.after), template.separator)
    _fill(text.token_ids, row_starts[1:] - len(template.end), template.end)
    return text


def place_words(
    arrays: SegmentArrays, cells: Cells, kept: Bools, row_starts: Ints, header_C: Ints, value_C: Ints
) -> Text:
    """Return a text with the headers and values of the kept cells where they are said to begin, and nothing else."""
    num_tokens, num_cells = int(row_starts[-1]), len(cells.row)
    token_ids = np.zeros(num_tokens, dtype=np.int64)
    span_T = np.full(num_tokens, 2 * num_cells, dtype=np.int64)
    number_C = np.flatnonzero(kept)
    for part, offsets, words, ids, begin in (
        (0, arrays.header_offsets, arrays.header_tokens, cells.header, header_C),
        (1, arrays.value_offsets, arrays.value_tokens, cells.value, value_C),
    ):
        lengths, index = gather_ranges(offsets, ids[kept])
        place = np.repeat(begin[kept], lengths) + count_up(lengths)
        token_ids[place] = words[index]
        span_T[place] = np.repeat(2 * number_C + part, lengths)
    return Text(cells=cells, row_starts=row_starts, token_ids=token_ids, token_span=span_T)


def mask_tokens(
    text: Text, special: SpecialTokens, *, whole_cells: bool = False, seed: int, epoch: int
) -> tuple[Ints, Ints]:
    """Return the tokens after masking some words, or all words of some cells, and where those stand: (T,) and (M,).

    The outcome for a row depends on (seed, epoch, row) alone, not on the rows beside it.
    """
    row_keys_T = np.repeat(fold(make_key(seed, epoch), text.cells.rows), np.diff(text.row_starts))
    keys = fold(row_keys_T, text.token_position)
    # A header and its value are two cells, numbered by their place in the row.
    cell_T = 2 * np.append(text.cells.rank, 0)[text.token_span // 2] + text.token_span % 2
    choice = uniform(fold(fold(row_keys_T, cell_T) if whole_cells else keys, _CHOOSE))
    chosen = text.is_word & (choice < TOKEN_SHARE)
    draw = uniform(fold(keys, _REPLACE))
    random_ids = special.regular[choose_below(fold(keys, _RANDOM), len(special.regular))]
    token_ids = np.where(chosen & (draw < MASK_RATE), special.mask, text.token_ids)
    swapped = chosen & (draw >= MASK_RATE) & (draw < MASK_RATE + RANDOM_RATE)
    return np.where(swapped, random_ids, token_ids), np.flatnonzero(chosen)


def _fill(token_ids: Ints, places: Ints, tokens: tuple[int, ...]) -> None:
    for offset, token in enumerate(tokens):
        token_ids[places + offset] = token


class TokenBaseline(Baseline):
    """Writes a row as a text, masks 15 % of its header and value tokens, and guesses them."""

    model: Any
    """The encoder of transformers, whose layers are BERT's, with its head for masked tokens at `cls`."""
    masks_cells = False
    """Whether 15 % of the headers and values are masked whole, instead of 15 % of their tokens."""

    @abstractmethod
    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return rows as texts, each cut to what the encoder takes."""

    @abstractmethod
    def embed_tokens(self, batch: Batch) -> Tensor:
        """Return the embeddings of the tokens before their context: (T, D)."""

    def encode(self, batch: Batch) -> Tensor:
        """Return contextual token embeddings: (T, D); packing rows, not padding them, changes nothing but the time."""
        packing = Packing(batch["row_starts"], len(batch["token_ids"]))
        hidden = self.embed_tokens(batch).unsqueeze(0)
        for layer in self.model.base_model.encoder.layer:
            hidden = layer(hidden, packing=packing)
        return hidden.squeeze(0)

    def score_tokens(self, states_MD: Tensor) -> Tensor:
        """Return the logits of every token: (M, V)."""
        logits: Tensor = self.model.cls(states_MD)
        return logits

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
        token_ids, target_M = mask_tokens(text, self.special, whole_cells=self.masks_cells, seed=seed, epoch=epoch)
        return self.pack(text, token_ids) | to_tensors(target_position=target_M, target_token=text.token_ids[target_M])

    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the masked tokens."""
        return self.score_targets(self.encode(batch), batch)

    def score_targets(self, states_TD: Tensor, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the masked tokens, given the states of all."""
        logits_MV = self.score_tokens(states_TD.index_select(0, batch["target_position"]))
        total = F.cross_entropy(logits_MV.float(), batch["target_token"], reduction="sum")
        return total / max(1, len(logits_MV))

    def make_input(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Batch:
        """Return rows with the hidden tokens masked, one [MASK] each, and where those stand."""
        text = self.write(arrays, rows)
        spans = np.zeros(2 * len(text.cells.row) + 1, dtype=bool)
        if hidden is not None:
            spans[:-1][int(hidden.part == "value") :: 2] = hidden.cells
        hidden_M, token_ids = np.flatnonzero(spans[text.token_span]), text.token_ids.copy()
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

    def read_logits(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, read: Callable[[Tensor], Tensor]
    ) -> Floats:
        """Return what `read` makes of the logits at each hidden token: (T, …), NaN where the cell was cut."""
        offsets = offset_hidden(arrays, rows, hidden)

        def read_batch(batch: Batch) -> Batch:
            return {"found": read(self.score_tokens(self.encode(batch).index_select(0, batch["hidden_position"])))}

        pieces = []
        for _, cells, batch, found in self.run(arrays, rows, hidden, read_batch):
            spans = np.unique(batch["token_span"][batch["hidden_position"]].numpy())
            pieces.append((gather_ranges(offsets, cells[spans // 2])[1], found["found"].float().cpu().numpy()))
        return scatter(int(offsets[-1]), pieces)


class Bert(TokenBaseline):
    """Transformers' BERT over `[CLS] header : value , header : value … [SEP]`."""

    name = "bert"
    abilities = frozenset({PREDICTS_TOKENS, IN_VARIANTS})

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.model = BertForMaskedLM(config)
        pack_attention(self.model)
        self.template = self.make_template()

    def make_template(self) -> Template:
        """Return what stands around headers and values."""
        special = self.special
        return Template(
            begin=(special.cls,), between=(special.colon,), separator=(self.find_sign(","),), end=(special.sep,)
        )

    def find_sign(self, sign: str) -> int:
        """Return the token of a sign, or that of unknown words."""
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary.get(sign, vocabulary["[UNK]"])

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a backbone."""
        copy_weights(weights, self.model, "bert.")

    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return rows as plain text, each cut to as many tokens as there are positions."""
        return write_text(arrays, rows, self.template, self.config.max_position_embeddings)

    def embed_tokens(self, batch: Batch) -> Tensor:
        """Return the embeddings of the tokens and of their places: (T, D)."""
        return embed_tokens(self.model.bert.embeddings, batch["token_ids"], batch["token_position"])

    def embed_texts(self, token_offsets: Ints, tokens: NDArray[np.integer]) -> Floats:
        """Return the mean state of each text, read alone between [CLS] and [SEP]: (N, D)."""
        self.eval()
        lengths, device = np.diff(token_offsets), self.device
        found = np.zeros((len(lengths), self.config.hidden_size), dtype=np.float32)
        for group in group_by_length(lengths + 2, TOKENS_PER_BATCH[device.type]):
            texts = pack_texts(token_offsets, tokens, group, self.special).to(device)
            batch = {name: getattr(texts, name) for name in ("token_ids", "token_position")}
            with torch.inference_mode():
                states_TD = TokenBaseline.encode(self, batch | {"row_starts": texts.starts})
                found[group] = pool_sequences(states_TD, texts).cpu().numpy()
        return found

    def average_words(self, arrays: SegmentArrays, rows: Ints) -> Floats:
        """Return the mean embedding of the words of each row's values, before any context: (R, D)."""
        cells = Cells(arrays, rows)
        lengths, places = gather_ranges(arrays.value_offsets, cells.value)
        with torch.inference_mode():
            words_TD = self.model.bert.embeddings.word_embeddings(
                torch.from_numpy(arrays.value_tokens[places].astype(np.int64)).to(self.device)
            )
            row_T = torch.from_numpy(np.repeat(cells.row, lengths)).to(self.device)
            return pool_spans(words_TD, row_T, len(rows)).cpu().numpy()


class Extended(TableEncoder):
    """BERT or HAETAE with what NAVI's default adds: a header's own text, and the words of a row's values."""

    abilities = frozenset()

    def __init__(self, inner: Bert) -> None:
        self.inner, self.name = inner, f"{inner.name}-extended"

    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings, those of headers and rows with both parts at the same length."""
        found = self.inner.embed(arrays, rows, parts=parts, hidden=hidden)
        added = {}
        if "headers" in found:
            texts = self.inner.embed_texts(arrays.header_offsets, arrays.header_tokens)
            added["headers"] = texts[Cells(arrays, rows).header]
        if "rows" in found:
            added["rows"] = self.inner.average_words(arrays, rows)
        both = {name: (torch.from_numpy(found[name]), torch.from_numpy(each)) for name, each in added.items()}
        return found | {name: add_equally(*pair).numpy() for name, pair in both.items()}


class Frozen(Bert):
    """The backbone as it is, reading texts: a header, a cell as `header : value`, a row as BERT has it; their means."""

    name = "frozen"
    abilities = frozenset()
    learns = False

    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings, each of a text read alone."""
        assert hidden is None, "nothing can be hidden from it"
        cells, found = Cells(arrays, rows), {}
        if "headers" in parts:
            found["headers"] = self.embed_texts(arrays.header_offsets, arrays.header_tokens)[cells.header]
        if "segments" in parts:
            pairs, place = np.unique(np.stack([cells.header, cells.value]), axis=1, return_inverse=True)
            texts = [self._write(arrays, header, value) for header, value in pairs.T]
            offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
            found["segments"] = self.embed_texts(offsets, np.concatenate([np.zeros(0, np.int64), *texts]))[place]
        if "rows" in parts:
            text = self.write(arrays, rows)
            # The template brings [CLS] and [SEP], which reading a text adds again.
            words = np.ones(len(text.token_ids), dtype=bool)
            words[text.row_starts[:-1]] = words[text.row_starts[1:] - 1] = False
            offsets = np.concatenate([[0], np.cumsum(np.diff(text.row_starts) - 2)])
            found["rows"] = self.embed_texts(offsets, text.token_ids[words])
        return {part: found[part] for part in parts}

    def _write(self, arrays: SegmentArrays, header: int, value: int) -> Ints:
        spelled = (
            arrays.header_tokens[slice(*arrays.header_offsets[header : header + 2])],
            np.array([self.special.colon]),
            arrays.value_tokens[slice(*arrays.value_offsets[value : value + 2])],
        )
        return np.concatenate(spelled).astype(np.int64)
