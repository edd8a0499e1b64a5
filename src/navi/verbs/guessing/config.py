"""The settings of guessing."""

from __future__ import annotations

from dataclasses import dataclass

from navi.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GuessConfig:
    """How gaps are guessed."""

    neighbours: int = 10
    """Nearest rows that vote."""
    sharpness: float = 3.0
    """Power of a near row's cosine in the vote."""
    training_cells: float = 5.0
    """How many of a column's cells the values of training tables count for."""
    coverage: float = 0.95
    """The model is asked for as many value lengths as hold this share of what other evidence expects."""
    max_lengths: int = 4
    """Value lengths that the model is asked for in a gap, at most."""
    max_values: int = 20_000
    """Values of a column that are ranked, at most; the rarest are left out."""
    generate_above: float | None = 0.5
    """Chance of a value that no other cell has, above which values are generated too; None never does."""
    generated_lengths: int = 1
    """Value lengths that are tried when generating, the column's most frequent."""
    rounds: int = 2
    """Passes in which a generated value is put together."""

    def __post_init__(self) -> None:
        for name in ("neighbours", "max_lengths", "max_values", "generated_lengths", "rounds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("coverage", "generate_above"):
            share = getattr(self, name)
            if share is not None and not 0.0 <= share <= 1.0:
                raise ConfigError(f"{name} must lie between 0 and 1, got {share}.")
