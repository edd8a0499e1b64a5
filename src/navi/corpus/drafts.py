"""A draft: one source read, encoded and laid down as pieces, before it is known what of it stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from navi.corpus.config import PrepareConfig
from navi.corpus.pieces import ChunkEncoder
from navi.corpus.scratch import PieceWriter
from navi.corpus.vocabulary import FieldCount
from navi.errors import MissingExtraError, TableError
from navi.tables import ReadReport, Source, read_chunks

BEYOND_MAX_TOKENS = "beyond max_tokens"
"""Reason of cells left out because their row was too long."""
READING_ENDED = "reading ended early"
"""Reason of dropped rows: they were met, but an error came before they could be handed on."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A source on its way into the corpus."""

    source: Source
    pieces: Path
    """File with its pieces."""
    losses: ReadReport
    num_rows: int
    """Rows laid down."""
    fields: FieldCount
    """What the vocabulary check found."""
    trouble: str | None
    """Why reading ended early, or None."""


def draft_source(
    source: Source, pieces: Path, encoder: ChunkEncoder, config: PrepareConfig, report: Callable[[int], None]
) -> Draft:
    """Read and encode a source; `report` is told the number of rows of each piece.

    A source that cannot be read, or not to its end, is an error only where reading is strict.
    """
    losses, fields, num_rows, trouble = ReadReport(), FieldCount(0, 0), 0, None
    writer = PieceWriter(pieces)
    try:
        for chunk in read_chunks(source, losses, config.read):
            piece = encoder.encode(chunk)
            writer.write(piece)
            fields = FieldCount(fields.text + piece.fields.text, fields.bad + piece.fields.bad)
            losses.cells.update({BEYOND_MAX_TOKENS: piece.num_beyond} if piece.num_beyond else {})
            num_rows += piece.num_rows
            report(piece.num_rows)
    except (TableError, MissingExtraError) as error:
        if config.read.strict:
            raise TableError(str(error)) from error
        trouble = str(error)
        _enter_trouble(losses, num_rows, trouble)
    finally:
        writer.close()
    return Draft(source=source, pieces=pieces, losses=losses, num_rows=num_rows, fields=fields, trouble=trouble)


def _enter_trouble(losses: ReadReport, num_rows: int, trouble: str) -> None:
    missing = losses.read - losses.dropped.total() - num_rows
    if missing:
        losses.dropped[READING_ENDED] += missing
    if losses.read:
        losses.places.setdefault(READING_ENDED, []).append(trouble)
