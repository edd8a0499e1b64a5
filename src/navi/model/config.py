"""The shape of a NAVI encoder: a BERT, and what NAVI adds to it."""

from __future__ import annotations

from typing import Any

from transformers import BertConfig

from navi.errors import ConfigError

FORMAT_VERSION = 2
"""The format of model directories; other ones are refused."""


class NaviConfig(BertConfig):  # type: ignore[misc]
    """Configuration of a `NaviModel`: BERT's, with these fields beside them.

    - `attribute_gate`: scale the attribute vector to a learned length, at first that of a word embedding, so that it
      does not drown the word it is added to. Off, the plain sum of the paper.
    - `local_head_share`: share of each layer's heads that attend within their own segment only, which binds a value to
      its header whatever the attribute. 0 is the paper's encoder.
    - `attribute_embedding`: add the attribute vector to the tokens; off for the paper's ablation "w/o CAE".
    - `header_attribute`: the embedding of a header is the sum of its states in context and of its attribute's own
      vector, both of the same length. Off, the states alone, as in the paper.
    - `row_words`: the embedding of a row is the sum of its [CLS] and of the mean of its values' words before their
      context, both of the same length. Off, [CLS] alone, as in the paper.
    - `attribute_layers`: which two of the backbone's layers the attribute encoder starts from; None for the eighth and
      ninth of twelve, or the like of them.
    - `cold_head`: whether the head for masked tokens was made anew, because the backbone brought none.
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
        attribute_layers: list[int] | None = None,
        cold_head: bool = True,
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
        self.attribute_layers = attribute_layers or _choose_layers(self.num_hidden_layers)
        self.cold_head = cold_head
        self.projection_dropout = projection_dropout

    @property
    def num_local_heads(self) -> int:
        """Heads of each layer that attend within their segment."""
        return int(self.num_attention_heads * self.local_head_share)


def _choose_layers(num_layers: int) -> list[int]:
    """Return the indices, from 0, of the layers that correspond to the eighth and ninth of twelve."""
    first = max(0, min(round(8 * num_layers / 12) - 1, num_layers - 2))
    return [first, min(first + 1, num_layers - 1)]
