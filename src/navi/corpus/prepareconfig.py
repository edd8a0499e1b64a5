"""The settings of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from navi.corpus.attributes import AttributeMapping, load_attributes, parse_attributes
from navi.errors import ConfigError
from navi.tables import ReadConfig

NORMALISATIONS = ("rows", "distinct")


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
        _check_least(self, max_value_tokens=1, max_header_tokens=1, largest_tables=1, total_rows=1, workers=1)
        _check_share(self, "max_unknown_share", "max_bad_share", "validation_share", "test_share")
        _check_share(self, "theta_low", "theta_high")
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
        if self.normalise not in NORMALISATIONS:
            raise ConfigError(f"normalise must be one of {', '.join(NORMALISATIONS)}, got '{self.normalise}'.")
        if isinstance(self.unseen_tables, int) and self.unseen_tables < 0:
            raise ConfigError(f"unseen_tables must be at least 0, got {self.unseen_tables}.")

    def as_settings(self) -> dict[str, Any]:
        """Return what decides a corpus's content, ready for JSON: the mapping spelled out, the workers left out."""
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        del settings["workers"]
        unseen = self.unseen_tables
        return settings | {
            "backbone": str(self.backbone),
            "attributes": load_attributes(self.attributes).as_dict(),
            "unseen_tables": unseen if isinstance(unseen, int) else list(unseen),
            "read": asdict(self.read),
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> PrepareConfig:
        """Return the config that `as_settings` described."""
        unseen = settings["unseen_tables"]
        return cls(
            **{name: value for name, value in settings.items() if name not in ("attributes", "unseen_tables", "read")},
            attributes=parse_attributes(settings["attributes"], "of the corpus"),
            unseen_tables=unseen if isinstance(unseen, int) else tuple(unseen),
            read=ReadConfig(**settings["read"]),
        )


def _check_least(config: PrepareConfig, **least: int) -> None:
    for name, bound in least.items():
        value = getattr(config, name)
        if value is not None and value < bound:
            raise ConfigError(f"{name} must be at least {bound}, got {value}.")


def _check_share(config: PrepareConfig, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 <= value <= 1:
            raise ConfigError(f"{name} must lie between 0 and 1, got {value}.")
