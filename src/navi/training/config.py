"""The settings of a pretraining run: defaults, presets by name, and the ablations of either."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from navi.backbones import BASE_MODEL, MINILM
from navi.batches import MaskingConfig, SamplerConfig
from navi.errors import ConfigError
from navi.losses import AlignmentConfig, ViewsConfig
from navi.settings import check_bounds, override

PRECISIONS = ("auto", "float32", "bfloat16")
MAX_EPOCHS = 10
"""Epochs of a run that goes on as long as they lower the validation loss, at most."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What NAVI adds to its backbone."""

    attribute_gate: bool = True
    """Scale the attribute vector to a learned length (off: the plain sum of the paper)."""
    local_head_share: float = 0.5
    """Share of each layer's heads that attend within their own segment (the paper: 0)."""
    header_attribute: bool = True
    """Add the attribute's own vector to the embedding of a header (the paper: the header in context alone)."""
    row_words: bool = True
    """Add the words of its values, before their context, to the embedding of a row (the paper: [CLS] alone)."""
    shared_words: bool = True
    """Read attributes with the word embeddings of the rows (the paper: with their own copy)."""
    attribute_embedding: bool = True
    """Let tokens and segments have the attribute vector; off for the ablation without attributes."""
    dropout: float | None = None
    """Share of the states that is dropped while learning; None for what the backbone was trained with."""

    def __post_init__(self) -> None:
        check_bounds(self, "local_head_share", "dropout", least=0, most=1)
        if 1.0 in (self.local_head_share, self.dropout):
            raise ConfigError("local_head_share and dropout must be less than 1, got 1.")

    def as_settings(self) -> dict[str, Any]:
        """Return the settings of `NaviConfig` that say the same.

        >>> ModelConfig(dropout=0.0).as_settings()["hidden_dropout_prob"]
        0.0
        """
        settings = asdict(self)
        dropout = settings.pop("dropout")
        if dropout is None:
            return settings
        return settings | {"hidden_dropout_prob": dropout, "projection_dropout": dropout}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast and how safely a run learns."""

    epochs: int | None = None
    """Times that every training row is seen; None for as many as lower the validation loss, at most 10, and one more
    in which the learning rate falls to 0."""
    max_steps: int | None = None
    """Stop after this many steps, whatever the epochs; None for no such limit."""
    minutes: float | None = None
    """Stop after about so many minutes of training, whatever the epochs: how many steps these are is measured while
    they go by, and the learning rate falls to 0 by the last; None for no such limit."""
    learning_rate: float = 2e-4
    """Highest learning rate of the parameters that come from the backbone (the paper: 3e-5)."""
    new_learning_rate: float = 5e-4
    """Highest learning rate of the parameters that start cold: head, projection, unknown attribute, gate."""
    weight_decay: float = 0.01
    """Weight decay of matrices; biases, norms and scalars have none."""
    warmup_share: float = 0.05
    """Share of the steps in which the learning rate rises; it falls in a straight line after them."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    seed: int = 0
    """Decides everything random: order, masks, dropout, cold parameters."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the encoder; `auto` is bfloat16 on a GPU or CPU with instructions for it, else float32."""
    graphs: bool | None = None
    """Make batches on the GPU, compute in half precision throughout, record the passes and replay them; None does so
    on one GPU with bfloat16."""
    workers: int = 2
    """Threads that make batches ahead of time; 0 makes them in between."""
    checkpoint_steps: int | None = None
    """Save a checkpoint each time this many steps are done; None for no such rhythm."""
    checkpoint_minutes: float | None = 2.0
    """Save a checkpoint each time this many minutes have passed; None for no such rhythm. With neither rhythm there are
    none but that of a run that is stopped."""
    keep_checkpoints: int = 2
    """How many checkpoints are kept, the newest, while the run lasts; a finished run needs none."""
    validate_rows: int = 2000
    """Validation rows looked at before the first step and after each epoch, at most; 0 for no validation."""
    keep_values: bool = True
    """Write values of the tables into the model directory: the lists of frequent ones, and profiles of columns."""
    log_every: int = 10
    """Steps between two lines of metrics.jsonl."""

    def __post_init__(self) -> None:
        check_bounds(self, "epochs", "max_steps", "checkpoint_steps", "keep_checkpoints", "log_every", least=1)
        check_bounds(self, "weight_decay", "workers", "validate_rows", least=0)
        check_bounds(self, "warmup_share", least=0, most=1)
        check_bounds(self, "learning_rate", "new_learning_rate", "clip_norm", "checkpoint_minutes", "minutes", above=0)
        if self.precision not in PRECISIONS:
            raise ConfigError(f"precision must be one of {', '.join(PRECISIONS)}, got '{self.precision}'.")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Everything that decides what a pretraining run learns from a corpus."""

    backbone: str = BASE_MODEL
    """What the encoder starts from: `navi-base`, `minilm`, the folder of a NAVI model or a BERT, or a hub name."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What NAVI adds to the backbone."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    """Which tokens are masked."""
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    """Which rows make a batch."""
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    """The alignment losses."""
    views: ViewsConfig = field(default_factory=ViewsConfig)
    """What is learned of columns read as texts."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """The optimiser, its schedule, and the care taken of the run."""

    @classmethod
    def from_dict(cls, settings: dict[str, Any], base: Self | None = None) -> Self:
        """Return `base` (the defaults, if none is given) with these settings put over it.

        >>> PretrainConfig.from_dict({"training": {"epochs": 1}}).training.epochs
        1
        """
        return override(base or cls(), settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain nested dictionaries, ready for JSON; `from_dict` reads them back."""
        return asdict(self)


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "backbone": MINILM,
        "model": {
            "attribute_gate": False,
            "local_head_share": 0.0,
            "header_attribute": False,
            "row_words": False,
            "shared_words": False,
        },
        "masking": {"header_share": 0.4, "value_share": 0.4, "unknown_attribute_rate": 0.0},
        "sampler": {"rows_per_batch": 32, "tables_per_batch": 4},
        "alignment": {"low_negatives": "table", "same_value_negatives": True, "row_weight": 0.0},
        "views": {"weight": 0.0, "keep_weight": 0.0},
        "training": {"epochs": 2, "learning_rate": 3e-5, "new_learning_rate": 3e-5},
    },
    "laptop": {
        # Many small steps learn more in a few minutes than few large ones.
        "sampler": {"rows_per_batch": 16, "tables_per_batch": 4},
        "training": {"minutes": 10.0, "validate_rows": 96},
    },
}
"""What each preset sets otherwise than the dataclasses' defaults; `laptop` is what a machine without a GPU takes."""

ABLATIONS: dict[str, dict[str, Any]] = {
    "without_attributes": {"model": {"attribute_embedding": False, "header_attribute": False}},
    "without_segment_masking": {"masking": {"whole_spans": False}},
    "without_alignment": {"alignment": {"weight": 0.0}},
    "without_views": {"views": {"weight": 0.0, "keep_weight": 0.0}},
    "random_routing": {"alignment": {"random_routing": True}},
}
"""What each ablation changes in a preset: those of the paper, and the loss of columns and rows read as texts."""


def make_preset(name: str = "default", ablation: str | None = None) -> PretrainConfig:
    """Return the settings of a preset, changed by an ablation if one is named.

    >>> make_preset("paper", "without_alignment").alignment.weight
    0.0
    """
    config = PretrainConfig.from_dict(_find(PRESETS, name, "preset"))
    if ablation is None:
        return config
    return PretrainConfig.from_dict(_find(ABLATIONS, ablation, "ablation"), base=config)


def _find(known: dict[str, dict[str, Any]], name: str, what: str) -> dict[str, Any]:
    if name not in known:
        raise ConfigError(f"Unknown {what} '{name}'. Expected one of {', '.join(known)}.")
    return known[name]
