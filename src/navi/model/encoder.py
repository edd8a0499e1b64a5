"""The NAVI encoder: BERT layers over packed rows, an attribute encoder, and the projection of segments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer, BertLMPredictionHead

from navi.batches.batch import Rows, Sequences
from navi.model.attention import Boundaries, Packing, attend_first, join_attention
from navi.model.config import NaviConfig
from navi.model.dropout import replace_dropout
from navi.model.pooling import pool_sequences, pool_spans

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes, M targets, D hidden size, V vocabulary.


@dataclass(frozen=True)
class NaviOutput:
    """Everything the model says about some packed rows."""

    tokens: Tensor
    """(T, D) contextual token embeddings."""
    cls: Tensor
    """(R, D) states of [CLS]."""
    headers: Tensor
    """(S, D) contextual header embeddings e^(h)."""
    values: Tensor
    """(S, D) contextual value embeddings e^(v)."""
    attribute_table: Tensor
    """(A + 2, D) no attribute, the unknown one, then the context-free attribute embeddings e_a."""


class AttributeEncoder(nn.Module):
    """The light encoder f of attributes: embeddings and two layers of the backbone, trained as their own copy."""

    def __init__(self, config: NaviConfig) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config, layer_idx=i) for i in range(len(config.attribute_layers)))
        self.num_heads: int = config.num_attention_heads

    def forward(self, attributes: Sequences) -> Tensor:
        """Return (A, D): the mean of each attribute's token states."""
        if (
            len(attributes.token_ids) == 0
        ):  # rows without cells have no attributes, and BERT layers take no empty sequence
            words: Tensor = self.embeddings.word_embeddings.weight
            return words.new_zeros(0, words.shape[1])
        packing = Packing(self.num_heads, Boundaries(attributes.starts, len(attributes.token_ids)))
        hidden = embed_tokens(self.embeddings, attributes.token_ids, attributes.token_position).unsqueeze(0)
        for layer in self.layers:
            hidden = layer(hidden, packing=packing)
        return pool_sequences(hidden.squeeze(0), attributes.starts)


class Projection(nn.Module):
    """The projection g from attribute, header and value to one segment embedding."""

    def __init__(self, config: NaviConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.expand = nn.Linear(3 * width, 2 * width)
        self.inner_norm = nn.LayerNorm(2 * width)
        self.dropout = nn.Dropout(config.projection_dropout)
        self.compress = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, joined: Tensor) -> Tensor:
        """Return (S, D) for (S, 3D)."""
        inner = self.inner_norm(F.gelu(self.expand(joined)))
        projected: Tensor = self.norm(self.compress(self.dropout(inner)))
        return projected


class NaviModel(PreTrainedModel):  # type: ignore[misc]
    """Encodes packed rows; see `NaviOutput` for what comes back.

    The order of a row's columns leaves no trace: positions restart in each segment and attention sees a set.
    """

    config_class = NaviConfig
    base_model_prefix = "navi"
    supports_gradient_checkpointing = True
    _supports_attention_backend = True
    _supports_sdpa = True
    _no_split_modules = ("BertLayer",)
    _tied_weights_keys = {  # noqa: RUF012
        "head.decoder.weight": "embeddings.word_embeddings.weight",
        "head.decoder.bias": "head.bias",
    }

    def __init__(self, config: NaviConfig) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config, layer_idx=i) for i in range(config.num_hidden_layers))
        self.attribute_encoder = AttributeEncoder(config)
        self.projection = Projection(config)
        self.head = BertLMPredictionHead(config)
        self.unknown_attribute = nn.Parameter(torch.zeros(config.hidden_size))
        self.attribute_scale = nn.Parameter(torch.ones(()))
        join_attention(self)
        replace_dropout(self)
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Self:
        """Load a model from safetensors alone: pickled weights are refused, whatever the caller asks for."""
        model: Self = super().from_pretrained(*args, **{**kwargs, "use_safetensors": True})
        return model

    def forward(
        self, rows: Rows, attribute_table: Tensor | None = None, read_tokens: Tensor | None = None
    ) -> NaviOutput:
        """Encode packed rows; a table of attribute embeddings made earlier saves encoding them again.

        With `read_tokens`, in their order, all other tokens come out as zeros: most of the last layer's work is saved.
        """
        if attribute_table is None:
            attribute_table = self.embed_attributes(rows.attributes)
        hidden = self._embed(rows, attribute_table).unsqueeze(0)
        packing = self._pack(rows)
        for layer in self.layers if read_tokens is None else self.layers[:-1]:
            hidden = layer(hidden, packing=packing)
        if read_tokens is None:
            tokens_TD = hidden.squeeze(0)
        else:
            tokens_TD = embed_some(self.layers[-1], hidden, packing, read_tokens)
        spans = pool_spans(tokens_TD, rows.token_span, 2 * rows.num_segments)
        return NaviOutput(
            tokens=tokens_TD,
            cls=tokens_TD.index_select(0, rows.starts[:-1].clamp(max=len(tokens_TD) - 1)).float(),
            headers=spans[0::2],
            values=spans[1::2],
            attribute_table=attribute_table,
        )

    def embed_rows(self, rows: Rows, attribute_table: Tensor | None = None) -> Tensor:
        """Return the rows' embeddings alone: (R, D), as `pool_rows` has them after a whole pass.

        The last layer is computed for [CLS] only, which leaves out a seventh of the work.
        """
        if attribute_table is None:
            attribute_table = self.embed_attributes(rows.attributes)
        embedded_TD = self._embed(rows, attribute_table)
        hidden, packing = embedded_TD.unsqueeze(0), self._pack(rows)
        for layer in self.layers[:-1]:
            hidden = layer(hidden, packing=packing)
        last: Any = self.layers[-1]
        own = getattr(last, "embed_first", None)
        first: Tensor = own(hidden, packing) if own else embed_first(last, hidden, packing)
        return self._add_words(first.float(), embedded_TD, rows)

    def pool_rows(self, output: NaviOutput, rows: Rows) -> Tensor:
        """Return the rows' embeddings, the states of [CLS] and, if so set, the words of their values: (R, D)."""
        if not self.config.row_words:
            return output.cls
        return self._add_words(output.cls, self._embed(rows, output.attribute_table), rows)

    def embed_attributes(self, attributes: Sequences) -> Tensor:
        """Return the attribute table of `NaviOutput`: (A + 2, D)."""
        embedded_AD = self.attribute_encoder(attributes)
        none = embedded_AD.new_zeros(1, embedded_AD.shape[1])
        return torch.cat([none, self.unknown_attribute.to(embedded_AD.dtype).unsqueeze(0), embedded_AD])

    def pool_headers(self, output: NaviOutput, rows: Rows) -> Tensor:
        """Return the header embeddings of all segments, in context and, if so set, as what they are called: (S, D)."""
        if not self.config.header_attribute:
            return output.headers
        called = output.attribute_table.index_select(0, rows.segment_slot).float()
        return add_alike(output.headers, called)

    def embed_segments(self, output: NaviOutput, rows: Rows, chosen: Tensor | None = None) -> Tensor:
        """Return the segment embeddings σ of all segments, or of those chosen: (S, D)."""
        slots, headers, values = rows.segment_slot, output.headers, output.values
        if chosen is not None:
            slots, headers, values = slots[chosen], headers.index_select(0, chosen), values.index_select(0, chosen)
        joined = torch.cat([output.attribute_table.index_select(0, slots), headers, values], dim=1).to(
            self.projection.expand.weight.dtype
        )
        projected: Tensor = self.projection(joined)
        return projected.float()

    def predict_tokens(self, output: NaviOutput, positions: Tensor) -> Tensor:
        """Return token logits at these places of the token axis alone: (M, V)."""
        logits: Tensor = self.head(output.tokens.index_select(0, positions))
        return logits

    def tell_tokens(self, output: NaviOutput, positions: Tensor) -> Tensor:
        """Return what `predict_tokens` does, by a head that learns nothing from it: (M, V)."""
        fixed = {name: parameter.detach() for name, parameter in self.head.named_parameters()}
        logits: Tensor = functional_call(self.head, fixed, (output.tokens.index_select(0, positions),))
        return logits

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings, to which the head is tied."""
        words: nn.Module = self.embeddings.word_embeddings
        return words

    def get_output_embeddings(self) -> nn.Module:
        """Return the output layer of the head."""
        decoder: nn.Module = self.head.decoder
        return decoder

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, NaviModel):
            nn.init.zeros_(module.unknown_attribute)
            nn.init.ones_(module.attribute_scale)

    def _embed(self, rows: Rows, attribute_table: Tensor) -> Tensor:
        added = None
        if self.config.attribute_embedding:
            if self.config.attribute_gate:
                known = F.normalize(attribute_table[2:].float(), dim=1) * self.attribute_scale
                attribute_table = torch.cat([attribute_table[:2].float(), known])
            added = attribute_table.to(self.embeddings.word_embeddings.weight.dtype).index_select(0, rows.token_slot)
        return embed_tokens(self.embeddings, rows.token_ids, rows.token_position, added)

    def _add_words(self, first_RD: Tensor, embedded_TD: Tensor, rows: Rows) -> Tensor:
        if not self.config.row_words:
            return first_RD
        words_RD = pool_spans(embedded_TD, rows.find_value_rows(), rows.num_rows)
        return add_alike(first_RD, words_RD)

    def _pack(self, rows: Rows) -> Packing:
        wide = Boundaries(rows.starts, rows.num_tokens)
        num_local = self.config.num_local_heads
        local = Boundaries(rows.local_starts, rows.num_tokens) if num_local else None
        return Packing(self.config.num_attention_heads - num_local, wide, local)


def add_alike(first_ND: Tensor, second_ND: Tensor) -> Tensor:
    """Return sums in which both have the same weight, at about the length of normalised states: (N, D)."""
    return (F.normalize(first_ND, dim=1) + F.normalize(second_ND, dim=1)) * math.sqrt(first_ND.shape[1] / 2)


def embed_tokens(embeddings: Any, token_ids: Tensor, token_position: Tensor, added_TD: Tensor | None = None) -> Tensor:
    """Return word + position (+ what is added), normalised as the backbone does it: (T, D)."""
    places = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    summed = embeddings.word_embeddings(token_ids)
    summed += F.embedding(token_position, places)
    if added_TD is not None:
        summed += added_TD.to(summed.dtype)
    embedded: Tensor = embeddings.dropout(embeddings.LayerNorm(summed))
    return embedded


def embed_some(layer: Any, hidden: Tensor, packing: Packing, some_K: Tensor) -> Tensor:
    """Return what a BERT layer makes of some tokens, zeros for the others: (T, D)."""
    hidden_TD = hidden.squeeze(0)
    mixed_TD = layer.attention.self(hidden, packing=packing)[0].squeeze(0)
    some_KD = hidden_TD.index_select(0, some_K)
    attended_KD = layer.attention.output(mixed_TD.index_select(0, some_K), some_KD)
    states_KD: Tensor = layer.output(layer.intermediate(attended_KD), attended_KD)
    return torch.zeros_like(hidden_TD, dtype=states_KD.dtype).index_copy(0, some_K, states_KD)


def embed_first(layer: Any, hidden: Tensor, packing: Packing) -> Tensor:
    """Return what a BERT layer makes of the first token of each row: (R, D)."""
    hidden_TD = hidden.squeeze(0)
    first_RD = hidden_TD.index_select(0, packing.wide.starts[:-1].long())
    own = layer.attention.self
    query, key, value = (
        project(states).view(len(states), own.num_attention_heads, -1)
        for project, states in ((own.query, first_RD), (own.key, hidden_TD), (own.value, hidden_TD))
    )
    mixed_RD = attend_first(query, key, value, packing, own.scaling).flatten(1)
    attended_RD = layer.attention.output(mixed_RD, first_RD)
    states: Tensor = layer.output(layer.intermediate(attended_RD), attended_RD)
    return states


AutoConfig.register("navi", NaviConfig)
AutoModel.register(NaviConfig, NaviModel)
