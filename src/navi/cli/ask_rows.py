"""`navi embed`, `navi impute` and `navi search`: vectors of rows, their empty cells, and the rows like them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from navi.cli.console import (
    Screen,
    count_things,
    format_count,
    format_duration,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.cli.options import (
    INT8_ROWS,
    Device,
    EngineName,
    Json,
    ModelFolder,
    Overwrite,
    Paths,
    Quiet,
    SafeCsv,
    Sheet,
    TablePath,
    choose_precision,
    pick_sheet,
    show_model,
    split_names,
)
from navi.cli.prepare import note_lost, summarise_reports
from navi.cli.progress import Meter, follow_rows, follow_share, show_progress
from navi.errors import ConfigError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from navi.tables import Table
    from navi.verbs import Navi
    from navi.verbs.search import Neighbours, SearchIndex

EXAMPLES = {
    "embed": (
        "navi embed films/ -o rows.parquet",
        "navi embed films/ -o rows",
        "navi embed --model model films/ -o cells.parquet --kind segments --dtype float16",
    ),
    "impute": (
        "navi impute films.csv -o filled.csv",
        "navi impute --model model films.csv -o filled.csv --confidence 0.9 --columns genre,country",
    ),
    "search": (
        "navi search films/ --like 'title=Alien, year=1979'",
        "navi search --model model films/ --row imdb:12 -k 3 --index films.index",
    ),
}
Kind = Literal["rows", "segments", "headers", "attributes"]
Pooling = Literal["row", "cls", "mean", "values"]
Dtype = Literal["float32", "float16"]
Precision = Literal["float32", "bfloat16", "float16", "int8"]
FILLS_SHOWN = 12
"""Cells shown in the summary, the surest of each column first."""
CELLS_SHOWN = 6
"""Cells of a row that are shown; `--json` has them all."""


def embed(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="OUT.parquet, or a folder of shards.")],
    model: ModelFolder = None,
    kind: Annotated[Kind, typer.Option(help="What gets a vector.")] = "rows",
    pooling: Annotated[Pooling, typer.Option(help="What stands for a row: its embedding, [CLS], or a mean.")] = "row",
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to length 1.")] = False,
    dtype: Annotated[Dtype, typer.Option(help="Numbers that are written.")] = "float32",
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Most rows of a batch.")] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Arithmetic; int8 is for CPUs.", show_default="float32 on a CPU, else bfloat16"),
    ] = None,
    sheet: Sheet = None,
    engine: EngineName = "local",
    overwrite: Overwrite = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write vectors to Parquet, with table, row and header beside each; files may be larger than memory.

    To a folder they go as shards, and what was killed goes on when it is started again.
    """
    from navi.verbs import EmbedConfig, Navi, embed_files
    from navi.verbs.vector_files import check_vectors

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, pooling=pooling)
    check_vectors(out, paths, overwrite=overwrite)
    with show_progress(screen) as meter:
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device, precision=precision)
        report = follow_rows(meter, f"Embedding {kind}")
        chosen = pick_sheet(paths, sheet)
        result = embed_files(
            opened, chosen, out, kind=kind, config=config, progress=report, overwrite=overwrite, engine=engine
        )
    seconds, size = monotonic() - started, opened.hidden_size
    losses, num_rows = summarise_reports(result.reports, result.skipped), sum(r.kept for r in result.reports.values())
    facts = {"path": result.path, "vectors": result.num_vectors, "size": size}
    facts["tables"] = {name: each.kept for name, each in result.reports.items()}
    screen.answer_json(facts | losses.as_dict() | {"seconds": round(seconds, 3)})
    lines = losses.list_lines()
    screen.summarise(
        make_heading(f"{result.path}: {count_things(result.num_vectors, 'vector')} of {size} numbers"),
        f"{count_things(num_rows, 'row')} of {count_things(len(result.reports), 'table')}, {format_duration(seconds)}, "
        f"{format_count(num_rows / max(seconds, 1e-3))} rows/s.",
        *(["Left out or changed:", *lines] if lines else []),
    )
    screen.suggest(f"pyarrow.parquet.read_table({str(out)!r})", "read it in Python")


def impute(
    table: TablePath,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="File to write: .csv, .tsv, .jsonl, .parquet, .feather.")
    ],
    model: ModelFolder = None,
    confidence: Annotated[float, typer.Option(help="Leave a cell empty if less sure than this.")] = 0.6,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="These columns alone, commas between them.", show_default="all")
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Account of every empty cell.",
            show_default="OUT with .cells.csv; none in the table's own folder",
        ),
    ] = None,
    sheet: Sheet = None,
    safe_csv: SafeCsv = False,
    overwrite: Overwrite = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill a table's empty cells where the model is sure enough; cells that hold something stay as they are."""
    from navi.files import check_target
    from navi.tables import check_output, read_table, write_table
    from navi.verbs import Navi

    screen = Screen(quiet=quiet, as_json=as_json)
    # Among tables that are read together an account that nobody asked for would be one more.
    is_beside = out.parent.resolve() == table.parent.resolve()
    account = cells or (None if is_beside else out.with_name(f"{out.stem}.cells.csv"))
    for path in filter(None, (out, account)):
        check_output(path)
        check_target(path, [table], overwrite=overwrite)
    with show_progress(screen) as meter:
        meter.wait("Reading the table")
        read, wanted = read_table(pick_sheet([table], sheet)[0], whole=True), split_names(columns)
        read.find_headers(wanted or [])
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        report = follow_share(meter, "Filling cells", "cells")
        result = opened.impute(read, confidence=confidence, columns=wanted, progress=report)
    write_table(result.filled, out, safe_csv=safe_csv)
    if account is not None:
        write_table(result.cells, account, safe_csv=safe_csv)
    empty, filled = result.cells.num_rows, result.num_filled
    reasons = Counter(reason.partition(": ")[0] for reason in result.cells["reason"].to_pylist())
    facts: dict[str, Any] = {"path": out, "account": account, "empty": empty, "filled": filled, "reasons": reasons}
    screen.answer_json(facts | {"cells": result.cells.to_pylist()})
    if not empty:
        screen.summarise(make_heading(f"{out}: the table as it was, no cell is empty"))
    else:
        screen.summarise(
            make_heading(f"{out}: {format_count(filled)} of {count_things(empty, 'empty cell')} filled"),
            *([list_fills(result.cells)] if filled else []),
            *(
                f"  {count_things(n, 'cell')} left empty: {reason}"
                for reason, n in reasons.items()
                if reason != "filled"
            ),
            f"Every empty cell, its best guess and why it was left: {account or '--cells FILE writes it'}",
        )
    note_lost(screen, [read])


def list_fills(cells: pa.Table) -> Any:
    """Return some of the cells that were filled: the surest of each column, then the next."""
    filled = [cell for cell in cells.to_pylist() if cell["value"] is not None]
    met, ranked = Counter[str](), []
    for cell in sorted(filled, key=lambda cell: -cell["probability"]):
        ranked.append((met[cell["column"]], cell))
        met[cell["column"]] += 1
    rows = [
        (
            *(str(cell["row"]), cell["column"], shorten(cell["value"]), f"{cell['probability']:.2f}"),
            cell["reason"].partition(": ")[2],
        )
        for _, cell in sorted(ranked, key=lambda pair: pair[0])[:FILLS_SHOWN]
    ]
    return make_table(("row", "column", "value", "confidence", "why"), rows, right=("row", "confidence"))


def search(
    paths: Paths,
    model: ModelFolder = None,
    like: Annotated[str | None, typer.Option(metavar="ROW", help="Cells to look for: title=Alien, year=1979")] = None,
    row: Annotated[str | None, typer.Option(metavar="TABLE:N", help="A row of these tables to look for.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Rows to find.")] = 10,
    index: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the index here, or use the one here.")] = None,
    sheet: Sheet = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the nearest rows of any tables, by example or by some of their cells."""
    from navi.verbs import Navi, parse_like
    from navi.verbs.vector_index import has_vectors

    screen = Screen(quiet=quiet, as_json=as_json)
    if (like is None) == (row is None):
        raise ConfigError("Give one of --like ROW and --row TABLE:N.")
    wanted = None if row is None else parse_row(row)
    # Embedding all rows takes long: check what may be mistyped before.
    if like is not None:
        cells = parse_like(like)
        if len(paths) == 1 and has_vectors(paths[0]):
            found = search_vectors(screen, paths[0], cells, k=k, model=model, folder=index, device=device)
            screen.answer_json(found.to_pylist())
            rows = [[str(cell) for cell in row.values()] for row in found.to_pylist()]
            screen.answer(make_table(found.column_names, rows))
            return
    paths = pick_sheet(paths, sheet)
    num_rows = check_tables(paths, wanted, INT8_ROWS if index is None else 0)
    # An index that is kept may be asked where int8 is not to be had.
    precision = None if index is not None else choose_precision(device, num_rows)
    with show_progress(screen) as meter:
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device, precision=precision)
        built = make_index(opened, paths, index, meter)
        neighbours = built.search_row(*wanted, k) if wanted else built.search(like, k)[0]
    screen.answer_json([asdict(each) for each in neighbours])
    screen.answer(list_neighbours(neighbours))
    for reason in built.left_out:
        screen.note(f"Left out: {reason}")
    if index is not None:
        asked = f"--like {quote(like)}" if like is not None else f"--row {quote(row or '')}"
        command = f"navi search {show_model(model)}{quote(*paths)} --index {quote(index)} {asked}"
        screen.suggest(command, "search faster: the index is kept")


def search_vectors(
    screen: Screen,
    path: Path,
    cells: Mapping[str, Any],
    *,
    k: int,
    model: Path | None,
    folder: Path | None,
    device: str | None,
) -> pa.Table:
    """Return the rows nearest to some cells among the vectors of a file; the index is kept in the folder, if any."""
    from navi.files import scratch_folder
    from navi.verbs import Navi, VectorIndex

    with show_progress(screen) as meter, scratch_folder() as place:
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        meter.wait("Indexing")
        kept = folder or place / "index"
        index = VectorIndex.open(kept) if kept.exists() else VectorIndex.build(path, kept)
        return index.search_like(opened, cells, k)[0]


def parse_row(text: str) -> tuple[str, int]:
    """Return the table and number of `TABLE:N`.

    >>> parse_row("imdb:12")
    ('imdb', 12)
    """
    table, _, number = text.rpartition(":")
    if not table or not number.isdecimal():
        raise ConfigError(f"Cannot read '{text}' as a row: expected TABLE:N, such as imdb:12.")
    return table, int(number)


def check_tables(paths: Sequence[Path], wanted: tuple[str, int] | None, enough: int) -> int:
    """Return the number of rows, read until there are enough; what lies in an object store is not fetched for that.

    Paths that hold no table are refused, and a row of a table that is not among them.
    """
    from navi.storage import is_remote
    from navi.tables import ReadConfig, ReadReport, find_sources, read_chunks

    sources = find_sources(paths).sources
    known = [source.name for source in sources]
    if wanted is not None and wanted[0] not in known:
        raise TableError(f"There is no table '{wanted[0]}'. Expected one of {', '.join(known)}.")
    num_rows, config = 0, ReadConfig(chunk_rows=max(1, enough))
    for source in sources:
        with suppress(TableError):  # said when the index is made
            for chunk in read_chunks(source, ReadReport(), config) if not is_remote(source.path) else ():
                if num_rows >= enough:
                    return num_rows
                num_rows += chunk.num_rows
    return num_rows


def make_index(navi: Navi, paths: Sequence[Path], folder: Path | None, meter: Meter) -> SearchIndex:
    """Return the index that is kept in a folder, made now if it is not there; one for this once without a folder."""
    from navi.files import scratch_folder
    from navi.verbs import build_index, open_index

    if folder is not None and folder.exists():
        return open_index(navi, folder, paths)
    report = follow_rows(meter, "Indexing")
    if folder is not None:
        return build_index(navi, paths, folder, progress=report)
    with scratch_folder() as place:
        return build_index(navi, paths, place / "index", progress=report)


def list_neighbours(neighbours: Neighbours) -> Any:
    """Return the rows found, the nearest first."""
    rows = [
        (
            *(f"{score:.2f}" for score in (each.confidence, each.similarity, each.overlap)),
            *(f"{each.table}:{each.row}", show_cells(each.cells)),
        )
        for each in neighbours
    ]
    columns = ("confidence", "vector", "words", "row", "cells")
    return make_table(columns, rows, right=columns[:3])


def show_cells(cells: Mapping[str, str], sign: str = "=") -> str:
    """Return a few cells of a row in one line."""
    shown = [f"{header}{sign}{shorten(value)}" for header, value in list(cells.items())[:CELLS_SHOWN]]
    return ", ".join(shown) + (", …" if len(cells) > CELLS_SHOWN else "")


def list_cells(table: Table, row_number: int) -> dict[str, str]:
    """Return what a row holds; it is named by its number in its source."""
    row = table.text.slice(int(table.row_number.searchsorted(row_number)), 1).to_pylist()[0]
    return {header: value for header, value in row.items() if value is not None}
