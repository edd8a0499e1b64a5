"""The NAVI encoder: BERT layers over packed rows, an attribute encoder, and the projection of segments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer, BertLMPredictionHead

from navi.batches.batch import Rows, Sequences
from navi.errors import ConfigError
from navi.model.attention import Packing, pack_attention

if TYPE_CHECKING:
    from navi.model.int8 import QuantizedLayers

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes, M targets, K some tokens, N vectors of any kind,
# D hidden size, V vocabulary.

FORMAT_VERSION = 2
"""The format of model directories; other ones are refused."""


class NaviConfig(BertConfig):  # type: ignore[misc]
    """Configuration of a `NaviModel`: BERT's, those of `navi.training.ModelConfig`, and these fields beside them.

    - `attribute_layers`: which two of the backbone's layers the attribute encoder starts from; None for the eighth and
      ninth of twelve, or the like of them.
    - `cold_head`: whether the head for masked tokens starts from random weights, because the backbone brought none.
    - `cold_start`: whether projection, unknown attribute and gate start cold, because the backbone is no NAVI model.
    - `projection_dropout`: dropout inside the projection of segment embeddings.

    >>> NaviConfig(num_hidden_layers=12).attribute_layers
    [7, 8]
    """

    model_type = "navi"

    def __init__(
        self,
        format_version: int = FORMAT_VERSION,
        attribute_gate: bool = True,
        local_head_share: float = 0.5,
        attribute_embedding: bool = True,
        header_attribute: bool = True,
        row_words: bool = True,
        shared_words: bool = False,
        attribute_layers: list[int] | None = None,
        cold_head: bool = True,
        cold_start: bool = True,
        projection_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        # Kernels for packed rows take no attention dropout, so there is none anywhere: every path computes the same.
        kwargs["attention_probs_dropout_prob"] = 0.0
        super().__init__(**kwargs)
        if not 0.0 <= local_head_share < 1.0:
            raise ConfigError(f"local_head_share must be at least 0 and less than 1, got {local_head_share}.")
        if format_version != FORMAT_VERSION:
            raise ConfigError(f"The model has format version {format_version}, this version reads {FORMAT_VERSION}.")
        self.format_version = format_version
        self.attribute_gate = attribute_gate
        self.local_head_share = local_head_share
        self.attribute_embedding = attribute_embedding
        self.header_attribute = header_attribute
        self.row_words = row_words
        self.shared_words = shared_words
        self.attribute_layers = attribute_layers or _choose_layers(self.num_hidden_layers)
        self.cold_head = cold_head
        self.cold_start = cold_start
        self.projection_dropout = projection_dropout

    @property
    def num_local_heads(self) -> int:
        """Heads of each layer that attend within their segment."""
        return int(self.num_attention_heads * self.local_head_share)


def _choose_layers(num_layers: int) -> list[int]:
    """Return the indices, from 0, of the layers that correspond to the eighth and ninth of twelve."""
    first = max(0, min(round(8 * num_layers / 12) - 1, num_layers - 2))
    return [first, min(first + 1, num_layers - 1)]


@dataclass(frozen=True)
class NaviOutput:
    """Everything the model says about some packed rows; what is pooled is pooled when it is first asked for."""

    rows: Rows
    """The rows that went in."""
    words: Tensor
    """(T, D) token embeddings before their context."""
    tokens: Tensor
    """(T, D) contextual token embeddings."""
    attribute_table: Tensor
    """(A + 2, D) no attribute, the unknown one, then the context-free attribute embeddings e_a."""

    @cached_property
    def cls(self) -> Tensor:
        """(R, D) states of [CLS]."""
        return self.tokens.index_select(0, self.rows.starts[:-1].clamp(max=len(self.tokens) - 1)).float()

    @property
    def headers(self) -> Tensor:
        """(S, D) contextual header embeddings e^(h)."""
        return self._spans[0::2]

    @property
    def values(self) -> Tensor:
        """(S, D) contextual value embeddings e^(v)."""
        return self._spans[1::2]

    @cached_property
    def _spans(self) -> Tensor:
        return pool_spans(self.tokens, self.rows.token_span, 2 * self.rows.num_segments)


class AttributeEncoder(nn.Module):
    """The light encoder f of attributes: embeddings and two layers of the backbone, trained as their own copy."""

    def __init__(self, config: NaviConfig) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config, layer_idx=i) for i in range(len(config.attribute_layers)))

    def forward(self, attributes: Sequences) -> Tensor:
        """Return (A, D): the mean of each attribute's token states."""
        if attributes.num_tokens == 0:  # rows without cells have no attributes, and BERT layers take no empty sequence
            words: Tensor = self.embeddings.word_embeddings.weight
            return words.new_zeros(0, words.shape[1])
        packing = Packing(attributes.starts, attributes.num_tokens)
        hidden = embed_tokens(self.embeddings, attributes.token_ids, attributes.token_position).unsqueeze(0)
        for layer in self.layers:
            hidden = layer(hidden, packing=packing)
        return pool_sequences(hidden.squeeze(0), attributes)


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


class Dropout(nn.Dropout):
    """Dropout as torch's; on a CPU four numbers of its mask are drawn at a time, not each number alone.

    Forward and backward of 2,752 x 384 states take 3.6 ms of one core instead of 7.8.
    """

    def forward(self, states: Tensor) -> Tensor:
        """Return states of which a share is zero and the others are scaled up; a share is a multiple of 2**-16."""
        num_draws = 1 << 16  # what two bytes can be
        num_dropped = round(self.p * num_draws)
        if not self.training or states.device.type != "cpu" or num_dropped in (0, num_draws):
            return super().forward(states)
        draws = torch.empty(-(-states.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        kept = draws.view(torch.int16)[: states.numel()].view(states.shape) >= num_dropped - num_draws // 2
        return states * kept.to(states.dtype).mul_(num_draws / (num_draws - num_dropped))


def replace_dropout(model: nn.Module) -> None:
    """Put `Dropout` in the place of each of torch's own in a model."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p))


class NaviModel(PreTrainedModel):  # type: ignore[misc]
    """Encodes packed rows; see `NaviOutput` for what comes back.

    The order of a row's columns leaves no trace: positions restart in each segment and attention sees a set.
    """

    config_class = NaviConfig
    base_model_prefix = "navi"
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
        self.quantized_layers: QuantizedLayers | None = None
        if config.shared_words:
            self.attribute_encoder.embeddings.word_embeddings = self.embeddings.word_embeddings
            words = "embeddings.word_embeddings.weight"
            self._tied_weights_keys = {**self._tied_weights_keys, f"attribute_encoder.{words}": words}
        pack_attention(self)
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
        words_TD = self._embed(rows, attribute_table)
        packing = Packing(rows.starts, rows.num_tokens, rows.local_starts, self.config.num_local_heads)
        tokens_TD = self._run_layers(words_TD, packing, read_tokens)
        if read_tokens is not None:
            zeros_TD = tokens_TD.new_zeros(rows.num_tokens, tokens_TD.shape[1])
            tokens_TD = zeros_TD.index_copy(0, read_tokens, tokens_TD)
        return NaviOutput(rows, words_TD, tokens_TD, attribute_table)

    def pool_rows(self, output: NaviOutput) -> Tensor:
        """Return the rows' embeddings, the states of [CLS] and, if so set, the words of their values: (R, D)."""
        if not self.config.row_words:
            return output.cls
        rows = output.rows
        return add_equally(output.cls, pool_spans(output.words, rows.find_value_rows(), rows.num_rows))

    def embed_attributes(self, attributes: Sequences) -> Tensor:
        """Return the attribute table of `NaviOutput`: (A + 2, D)."""
        embedded_AD = self.attribute_encoder(attributes)
        none = embedded_AD.new_zeros(1, embedded_AD.shape[1])
        return torch.cat([none, self.unknown_attribute.to(embedded_AD.dtype).unsqueeze(0), embedded_AD])

    def embed_texts(self, texts: Sequences) -> Tensor:
        """Return (N, D): the mean state of each text's tokens, read as the backbone reads a sentence, no row at all."""
        packing = Packing(texts.starts, texts.num_tokens)
        hidden_TD = embed_tokens(self.embeddings, texts.token_ids, texts.token_position)
        return pool_sequences(self._run_layers(hidden_TD, packing), texts)

    def pool_headers(self, output: NaviOutput) -> Tensor:
        """Return the header embeddings of all segments, in context and, if so set, as what they are called: (S, D)."""
        if not self.config.header_attribute:
            return output.headers
        called = output.attribute_table.index_select(0, output.rows.segment_slot).float()
        return add_equally(output.headers, called)

    def embed_segments(self, output: NaviOutput, chosen: Tensor | None = None) -> Tensor:
        """Return the segment embeddings σ of all segments, or of those chosen: (S, D)."""
        slots, headers, values = output.rows.segment_slot, output.headers, output.values
        if chosen is not None:
            slots, headers, values = slots[chosen], headers.index_select(0, chosen), values.index_select(0, chosen)
        attributes = output.attribute_table.index_select(0, slots) * float(self.config.attribute_embedding)
        joined = torch.cat([attributes, headers, values], dim=1)
        projected: Tensor = self.projection(joined.to(self.projection.expand.weight.dtype))
        return projected.float()

    def predict_tokens(self, output: NaviOutput, positions: Tensor, *, train_head: bool = True) -> Tensor:
        """Return token logits at these places of the token axis alone, (M, V); the head may be kept from learning."""
        states_MD = output.tokens.index_select(0, positions)
        parameters = {name: parameter.detach() for name, parameter in self.head.named_parameters()}
        logits: Tensor = functional_call(self.head, {} if train_head else parameters, (states_MD,))
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
        """Return the tokens before their context, e_word + e_pos + e_a: (T, D)."""
        added = None
        if self.config.attribute_embedding:
            if self.config.attribute_gate:
                known = F.normalize(attribute_table[2:].float(), dim=1) * self.attribute_scale
                attribute_table = torch.cat([attribute_table[:2].float(), known])
            added = attribute_table.to(self.embeddings.word_embeddings.weight.dtype).index_select(0, rows.token_slot)
        return embed_tokens(self.embeddings, rows.token_ids, rows.token_position, added)

    def _run_layers(self, hidden_TD: Tensor, packing: Packing, some_K: Tensor | None = None) -> Tensor:
        """Return the states of all tokens after all layers, (T, D), or of some alone, (K, D)."""
        if self.quantized_layers is not None:
            return self.quantized_layers(hidden_TD, packing, some_K)
        hidden = hidden_TD.unsqueeze(0)
        for layer in self.layers if some_K is None else self.layers[:-1]:
            hidden = layer(hidden, packing=packing)
        if some_K is None:
            return hidden.squeeze(0)
        last: Any = self.layers[-1]
        mixed_KD = last.attention.self(hidden, packing=packing)[0].squeeze(0).index_select(0, some_K)
        attended_KD = last.attention.output(mixed_KD, hidden.squeeze(0).index_select(0, some_K))
        states_KD: Tensor = last.output(last.intermediate(attended_KD), attended_KD)
        return states_KD


def pool_spans(hidden_TD: Tensor, span_T: Tensor, num_spans: int) -> Tensor:
    """Average the tokens of each span, in float32; a span with no tokens yields zeros.

    Tokens whose span is `num_spans` belong to none.
    """
    hidden_TD = hidden_TD.float()
    sums = hidden_TD.new_zeros(num_spans + 1, hidden_TD.shape[1]).index_add(0, span_T, hidden_TD)
    counts = hidden_TD.new_zeros(num_spans + 1).index_add(0, span_T, hidden_TD.new_ones(len(span_T)))
    return sums[:num_spans] / counts[:num_spans].clamp(min=1.0).unsqueeze(1)


def pool_sequences(hidden_TD: Tensor, sequences: Sequences) -> Tensor:
    """Average the tokens of each sequence: (N, D)."""
    owner_T = torch.repeat_interleave(sequences.starts.diff(), output_size=sequences.num_tokens)
    return pool_spans(hidden_TD, owner_T, len(sequences.starts) - 1)


def add_equally(first_ND: Tensor, second_ND: Tensor) -> Tensor:
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


AutoConfig.register("navi", NaviConfig)
AutoModel.register(NaviConfig, NaviModel)
