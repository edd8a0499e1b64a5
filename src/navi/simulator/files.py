"""Simulated catalogues as files, written a block at a time so that their size costs no memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from navi.simulator.catalogue import Block, Simulation
from navi.simulator.config import SimulatorConfig
from navi.simulator.schema import Schema
from navi.simulator.truth import Truth

if TYPE_CHECKING:
    import pyarrow as pa


def write_catalogues(
    folder: str | Path,
    *,
    num_rows: int | None = None,
    num_catalogues: int = 14,
    seed: int = 0,
    num_films: int | None = None,
    width: float = 1.0,
    gap_rate: float = 0.06,
    typo_rate: float = 0.01,
    truth_rows: int | None = 20_000,
) -> Truth:
    """Write the catalogues of a simulated world into a folder and return what is true of them.

    The same settings write the same bytes. `num_rows` is the total over all catalogues, None for 400 each on average;
    the world grows with it. Of each catalogue the truth remembers the first `truth_rows` rows, None for all.
    """
    config = SimulatorConfig(
        num_rows=num_rows,
        num_catalogues=num_catalogues,
        seed=seed,
        num_films=num_films,
        width=width,
        gap_rate=gap_rate,
        typo_rate=typo_rate,
    )
    simulation, truth, folder = Simulation(config), Truth(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for place, schema in enumerate(simulation.schemas):
        _note_schema(truth, schema)
        _write(folder / schema.file_name, schema, _noting(simulation.blocks(place), truth, truth_rows))
    return truth


def _note_schema(truth: Truth, schema: Schema) -> None:
    truth.concepts.update({(schema.name, header): concept for header, concept in schema.concepts.items()})
    truth.films[schema.name] = []
    truth.first_place[schema.name] = 2 if schema.delimiter else 1


def _noting(blocks: Iterable[Block], truth: Truth, truth_rows: int | None) -> Iterator[Block]:
    """The blocks, their truth noted while they pass."""
    for block in blocks:
        name, films = block.schema.name, truth.films[block.schema.name]
        room = None if truth_rows is None else max(0, truth_rows - len(films))
        films.extend(islice(block.films, room))
        truth.gaps.update({(name, *gap): text for gap, text in block.gaps.items() if gap[0] < len(films)})
        yield block


def _write(path: Path, schema: Schema, blocks: Iterable[Block]) -> None:
    if schema.suffix == ".parquet":
        _write_parquet(path, schema, blocks)
        return
    with _open_text(path) as handle:
        if schema.delimiter:
            _write_delimited(handle, schema, blocks)
        else:
            _write_json_lines(handle, schema, blocks)


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    """The file opened for text; a compressed one without name and time, which would change its bytes."""
    with path.open("wb") as raw:
        if path.suffix != ".gz":
            with io.TextIOWrapper(raw, encoding="utf-8", newline="") as handle:
                yield handle
            return
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=3) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="") as handle,
        ):
            yield handle


def _write_delimited(handle: TextIO, schema: Schema, blocks: Iterable[Block]) -> None:
    writer = csv.writer(handle, delimiter=schema.delimiter, lineterminator="\n")
    writer.writerow([column.header for column in schema.columns])
    for block in blocks:
        writer.writerows(zip(*block.columns, strict=True))


def _write_json_lines(handle: TextIO, schema: Schema, blocks: Iterable[Block]) -> None:
    empty = {column.header: None for column in schema.columns if len(column.path) == 1} if schema.writes_null else {}
    encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
    for block in blocks:
        rows = ({**empty, **row} for row in block.rows()) if empty else block.rows()
        handle.writelines([encode(row) + "\n" for row in rows])


def _write_parquet(path: Path, schema: Schema, blocks: Iterable[Block]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    try:
        for block in blocks:
            types = _arrow_schema(block) if writer is None else writer.schema
            arrays = [_arrow_column(cells, kind) for cells, kind in zip(block.columns, types.types, strict=True)]
            writer = writer or pq.ParquetWriter(path, types)
            writer.write_table(pa.table(arrays, schema=types))
    finally:
        if writer is not None:
            writer.close()


def _arrow_schema(block: Block) -> pa.Schema:
    import pyarrow as pa

    kinds: dict[type, Any] = {int: pa.int64(), float: pa.float64()}
    fields = []
    for column, cells in zip(block.schema.columns, block.columns, strict=True):
        first = next((cell for cell in cells if cell is not None), None)
        is_date = column.concept == "release_date" and block.schema.formats.date == "iso"
        fields.append((column.header, pa.date32() if is_date else kinds.get(type(first), pa.string())))
    return pa.schema(fields)


def _arrow_column(cells: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_date(kind):
        return pa.array(cells, pa.string()).cast(kind)
    return pa.array(cells, kind)
