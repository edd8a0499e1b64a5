"""What the tests of tables share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from navi.tables import ReadConfig, ReadReport, find_sources, read_chunks, to_arrow

Rows = list[dict[str, str]]
Read = Callable[..., tuple[Rows, ReadReport]]


@pytest.fixture
def read() -> Read:
    """Read one file; return its rows without absent cells, and the losses, which must add up."""

    def read_file(path: Path, **settings: object) -> tuple[Rows, ReadReport]:
        (source,) = find_sources([path]).sources
        losses = ReadReport()
        chunks = list(read_chunks(source, losses, ReadConfig(**settings)))
        assert losses.read == sum(chunk.num_rows for chunk in chunks) + losses.dropped.total()
        rows = [{key: cell for key, cell in row.items() if cell is not None} for row in to_arrow(chunks).to_pylist()]
        return rows, losses

    return read_file
