"""How tables are read."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from navi.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """How a table is read and flattened."""

    chunk_rows: int = 8192
    """Most rows of a chunk; rows that are very long make it smaller."""
    max_family: int | None = 3
    """Members of a list that stay, the first ones, at each level of nesting; None keeps all."""
    encoding: str | None = None
    """Encoding of text files; None detects it."""
    delimiter: str | None = None
    """Character between the cells of a CSV file; None detects it."""
    strict: bool = False
    """Whether the first loss is an error; what `max_family` leaves out is a choice and no loss in this sense."""

    def __post_init__(self) -> None:
        if self.chunk_rows < 1:
            raise ConfigError(f"chunk_rows must be at least 1, got {self.chunk_rows}.")
        if self.max_family is not None and self.max_family < 1:
            raise ConfigError(f"max_family must be at least 1, or None to keep all, got {self.max_family}.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ConfigError(f"delimiter must be one character, no quote and no line end, got {self.delimiter!r}.")
        if self.encoding is not None:
            _check_encoding(self.encoding)


def _check_encoding(encoding: str) -> None:
    try:
        "text".encode(encoding)
        codecs.lookup(encoding)
    except LookupError as error:
        raise ConfigError(
            f"encoding {encoding!r} is no text encoding that Python knows; try 'utf-8' or 'cp1252'."
        ) from error


DEFAULT = ReadConfig()
"""Tables as they are read if nothing else is said."""
