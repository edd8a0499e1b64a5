"""The settings of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from navi.corpus.attributes import AttributeMapping, load_attributes, parse_attributes
from navi.errors import ConfigError
from navi.settings import override
from navi.tables import ReadConfig


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """How tables become a corpus."""

    backbone: str | Path = "minilm"
    """Whose tokenizer is used: a known name, a folder or a hub name."""
    seed: int = 0
    """Decides the splits, the sampling and the unseen tables."""
    attributes: str | Path | AttributeMapping | None = None
    """A JSON file (or mapping) with the attributes of headers; None makes each header canonical."""
    max_value_tokens: int = 20
    """Values are cut at this many tokens."""
    max_header_tokens: int = 20
    """Headers and attributes are cut at this many tokens."""
    max_tokens: int = 1024
    """A row keeps its first whole segments up to this many tokens."""
    max_unknown_share: float | None = 0.3
    """A text field with a larger share of [UNK] is bad; None switches the vocabulary check off."""
    max_bad_share: float = 0.3
    """A table with a larger share of bad fields is left out."""
    largest_tables: int | None = None
    """Keep this many tables, those with the most rows; None keeps all."""
    total_rows: int | None = None
    """Sample the tables down, in proportion, to this many rows in all; None keeps all."""
    unseen_tables: int | tuple[str, ...] = 0
    """Tables kept out of training whole: their names, or how many."""
    validation_tables: int | tuple[str, ...] = 0
    """Tables kept out of training whole, on which settings are chosen: their names, or how many."""
    validation_share: float = 0.1
    """Share of each table's rows in the split `validation`."""
    test_share: float = 0.1
    """Share of each table's rows in the split `test`."""
    normalise: str = "rows"
    """What a column's entropy is divided by: the log of its filled `rows` or of its `distinct` values."""
    theta_low: float = 0.05
    """Quantile of a table's entropies up to which a column is low."""
    theta_high: float = 0.95
    """Quantile of a table's entropies from which a column is high."""
    workers: int | None = None
    """Number of processes; None takes one a core, or none beside this one for little input."""
    read: ReadConfig = field(default_factory=ReadConfig)
    """How files are read; its `strict` makes every loss an error."""

    def __post_init__(self) -> None:
        for name in ("max_value_tokens", "max_header_tokens", "largest_tables", "total_rows", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}.")
        for name in ("max_unknown_share", "max_bad_share", "validation_share", "test_share", "theta_low", "theta_high"):
            if (value := getattr(self, name)) is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} must lie between 0 and 1, got {value}.")
        longest = self.max_header_tokens + self.max_value_tokens + 3
        if self.max_tokens < longest:
            raise ConfigError(f"max_tokens must hold one whole segment, {longest} tokens, got {self.max_tokens}.")
        if self.validation_share + self.test_share >= 1:
            raise ConfigError(
                "validation_share + test_share must leave rows to train on, "
                f"got {self.validation_share} + {self.test_share}."
            )
        if self.theta_low > self.theta_high:
            raise ConfigError(f"theta_low must be at most theta_high, got {self.theta_low} > {self.theta_high}.")
        if self.normalise not in ("rows", "distinct"):
            raise ConfigError(f"normalise must be one of rows, distinct, got '{self.normalise}'.")
        for name in ("unseen_tables", "validation_tables"):
            if isinstance(value := getattr(self, name), int) and value < 0:
                raise ConfigError(f"{name} must be at least 0, got {value}.")

    def as_settings(self) -> dict[str, Any]:
        """Return what decides a corpus's content, ready for JSON: the mapping spelled out, the workers left out."""
        attributes = load_attributes(self.attributes)
        settings = asdict(replace(self, backbone=str(self.backbone), attributes=attributes))
        del settings["workers"]
        return settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> PrepareConfig:
        """Return the config that `as_settings` described."""
        attributes = parse_attributes(settings["attributes"], "of the corpus")
        others = {name: value for name, value in settings.items() if name != "attributes"}
        return override(cls(attributes=attributes), others)
