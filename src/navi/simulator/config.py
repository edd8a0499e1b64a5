"""What a simulated world is made of."""

from __future__ import annotations

from dataclasses import dataclass

from navi.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """How many catalogues of how many films, and how messy they are."""

    num_catalogues: int = 14
    """Catalogues, each a table with a schema of its own."""
    rows_per_catalogue: int = 400
    """Rows of a catalogue on average; the largest have about three times those of the smallest."""
    num_rows: int | None = None
    """Rows of all catalogues together; None is `num_catalogues * rows_per_catalogue`."""
    num_films: int | None = None
    """Films in the world; None grows it with the rows, so that a film is in two or three catalogues on average."""
    width: float = 1.0
    """How many of the concepts that a catalogue could have it has, as a share of the usual: 0.5 halves its columns."""
    gap_rate: float = 0.06
    """Share of cells left out, of those that may be: titles, ids and constant columns are always there."""
    typo_rate: float = 0.01
    """Share of names and titles with a slip of the pen."""
    seed: int = 0
    """Everything follows from it."""

    def __post_init__(self) -> None:
        for name in ("num_catalogues", "rows_per_catalogue", "num_rows", "num_films"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ConfigError(f"{name} must be at least 1, got {count}.")
        for name in ("gap_rate", "typo_rate"):
            rate = getattr(self, name)
            if not 0.0 <= rate <= 0.5:
                raise ConfigError(f"{name} must lie between 0 and 0.5, got {rate}.")
        if not 0.1 <= self.width <= 1.0:
            raise ConfigError(f"width must lie between 0.1 and 1, got {self.width}.")
        if self.num_rows is not None and self.num_rows < self.num_catalogues:
            raise ConfigError(
                f"num_rows must give each catalogue a row, got {self.num_rows} for {self.num_catalogues} catalogues."
            )

    @property
    def total_rows(self) -> int:
        """Rows of all catalogues together."""
        return self.num_rows if self.num_rows is not None else self.num_catalogues * self.rows_per_catalogue
