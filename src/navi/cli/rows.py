"""`navi link`, `navi impute`, `navi search` and `navi embed`: rows about one thing, their gaps, the like, vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from navi.cli.app import repeat_command, verb
from navi.cli.console import (
    NARROW,
    Screen,
    count_things,
    find_free,
    format_count,
    format_duration,
    make_heading,
    make_table,
    shorten,
)
from navi.cli.options import (
    INT8_ROWS,
    Device,
    EngineName,
    Inputs,
    Json,
    ModelFolder,
    Overwrite,
    Paths,
    Quiet,
    SafeCsv,
    Sheet,
    TablePath,
    check_outputs,
    list_lost,
    note_lost,
    open_model,
    pick_sheet,
    split_names,
    summarise_reports,
)
from navi.errors import ConfigError, TableError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table as Shown

    from navi.tables import Source, Table
    from navi.verbs.link import RowPair, RowRef
    from navi.verbs.search import Neighbours

Kind = Literal["rows", "segments", "headers", "attributes"]
Pooling = Literal["text", "cls", "mean", "values"]
Dtype = Literal["float32", "float16"]
Precision = Literal["float32", "bfloat16", "float16", "int8"]
GROUPS_SHOWN = 20
"""Pairs or clusters of rows that are shown; files and `--json` have them all."""
LEAST_WEIGHT = 0.05
"""What contributes less to a pair is not shown."""
FILLS_SHOWN = 12
"""Cells shown in the summary, the surest of each column first."""
CELLS_SHOWN = 6
"""Cells of a row that are shown; `--json` has them all."""


@verb(
    "Ask a model",
    "navi link imdb.csv netflix.csv --one-to-one -o pairs.csv",
    "navi link feeds/ --clusters things.csv",
    "navi link imdb.csv netflix.csv --labels pairs.csv --explain",
)
def link(
    paths: Paths,
    model: ModelFolder = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write one line a pair: .csv, .parquet …")
    ] = None,
    clusters: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one line a row that has a partner, with its cluster.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Probability from which rows are linked.")] = 0.5,
    one_to_one: Annotated[
        bool, typer.Option("--one-to-one", help="At most one partner of a row in each other table.")
    ] = False,
    within: Annotated[
        bool, typer.Option("--within", help="Duplicates inside a table, too.", show_default="for one table alone")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs with `same` filled in, to learn from.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what spoke for each pair, and against it.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Candidates for each row.")] = 10,
    encoder: Annotated[
        bool | None,
        typer.Option(help="Candidates by the model's vectors, too.", show_default="up to 20,000 rows"),
    ] = None,
    sheet: Sheet = None,
    overwrite: Overwrite = False,
    safe_csv: SafeCsv = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the rows that are about the same thing, in two tables, in many, or in one."""
    screen = Screen(quiet=quiet, as_json=as_json)
    written = check_outputs([out, clusters], [*paths, labels], overwrite=overwrite)
    from navi.tables import write_table

    with screen.follow() as meter:
        inputs = Inputs(meter, paths, sheet)
        opened = open_model(meter, model, device, num_rows=inputs.num_rows)
        meter.wait("Comparing the rows")
        found = opened.link(
            inputs.tables,
            threshold=threshold,
            one_to_one=one_to_one,
            within=within,
            labels=labels,
            k=k,
            encoder=encoder,
            progress=meter.count_share("Reading rows", "rows"),
        )
    if out is not None:
        write_table(found.to_arrow(), out, safe_csv=safe_csv)
    if clusters is not None:
        write_table(found.clusters_to_arrow(), clusters, safe_csv=safe_csv)
    pairs = found.to_arrow().to_pylist()
    if explain:
        pairs = [line | {"evidence": asdict(pair)["evidence"]} for line, pair in zip(pairs, found, strict=True)]
    grouped = [asdict(each) for each in found.clusters]
    screen.answer_json({"tables": found.rows.tables, "pairs": pairs, "clusters": grouped})
    by_pair, surest = len(inputs.tables) == 2, [found[place] for place in range(min(len(found), GROUPS_SHOWN))]
    groups: list[tuple[Sequence[RowRef], float]] = [((pair.left, pair.right), pair.probability) for pair in surest]
    if not by_pair:
        groups = [(each.rows, each.probability) for each in found.clusters[:GROUPS_SHOWN]]
    screen.answer(list_groups(groups, inputs.tables, screen.results.width))
    if explain:
        screen.answer(*map(list_evidence, surest))
    more = (len(found) if by_pair else len(found.clusters)) - GROUPS_SHOWN
    screen.summarise(
        make_heading(f"{count_things(len(found), 'pair')} of rows in {count_things(len(found.clusters), 'cluster')}."),
        *([f"{format_count(more)} more are not shown; -o FILE has them all."] if more > 0 else []),
        *(f"Written: {path}" for path in written),
    )
    inputs.note_lost(screen)
    if not len(found):
        screen.summarise("A lower --threshold shows rows that are less likely about the same thing.")
    elif out is None:
        screen.suggest("write the pairs", repeat_command("-o", find_free("pairs.csv")))
    elif not explain:
        again = () if overwrite else ("--overwrite",)
        screen.suggest("see what speaks for each pair", repeat_command("--explain", *again))


def list_groups(groups: Iterable[tuple[Sequence[RowRef], float]], tables: Mapping[str, Table], width: int) -> Shown:
    """Return groups of rows about the same thing, a line for each row."""
    lines = []
    for rows, probability in groups:
        for place, row in enumerate(rows):
            cells = show_cells(list_cells(tables[row.table], row.row))
            lines.append((f"{probability:.2f}" if place == 0 else "", str(row), cells))
    return make_table(("probability", "row", "cells"), lines, right=("probability",), width=width)


def list_evidence(pair: RowPair) -> Shown:
    """Return what spoke for a pair and against it, what counts most first."""
    rows = [
        (f"{each.weight:+.1f}", each.column, shorten(each.left or ""), shorten(each.right or ""))
        for each in pair.evidence
        if abs(each.weight) >= LEAST_WEIGHT
    ]
    title = f"{pair.left} and {pair.right}: {pair.probability:.2f}"
    return make_table(("log odds", "compared", "left", "right"), rows, title=title, right=("log odds",))


def show_cells(cells: Mapping[str, str], sign: str = "=") -> str:
    """Return a few cells of a row in one line."""
    shown = [f"{header}{sign}{shorten(value)}" for header, value in list(cells.items())[:CELLS_SHOWN]]
    return ", ".join(shown) + (", …" if len(cells) > CELLS_SHOWN else "")


def list_cells(table: Table, row_number: int) -> dict[str, str]:
    """Return what a row holds; it is named by its number in its source."""
    row = table.text.slice(int(table.row_number.searchsorted(row_number)), 1).to_pylist()[0]
    return {header: value for header, value in row.items() if value is not None}


@verb(
    "Ask a model",
    "navi impute films.csv -o filled.csv",
    "navi impute --model model films.csv -o filled.csv --confidence 0.9 --columns genre,country",
)
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
    screen = Screen(quiet=quiet, as_json=as_json)
    # Among tables that are read together an account that nobody asked for would be one more.
    is_beside = out.parent.resolve() == table.parent.resolve()
    account = cells or (None if is_beside else out.with_name(f"{out.stem}.cells.csv"))
    check_outputs([out, account], [table], overwrite=overwrite)
    from navi.tables import read_table, write_table

    with screen.follow() as meter:
        meter.wait("Reading the table")
        read, wanted = read_table(pick_sheet([table], sheet)[0], whole=True), split_names(columns)
        read.find_headers(wanted or [])
        opened = open_model(meter, model, device)
        report = meter.count_share("Filling cells", "cells")
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
        left = {reason: count for reason, count in reasons.items() if reason != "filled"}
        screen.summarise(
            make_heading(f"{out}: {format_count(filled)} of {count_things(empty, 'empty cell')} filled"),
            *([list_fills(result.cells)] if filled else []),
            *(f"  {count_things(count, 'cell')} left empty: {reason}" for reason, count in left.items()),
            f"Every empty cell, its best guess and why it was left: {account or '--cells FILE writes it'}",
        )
    note_lost(screen, [read])


def list_fills(cells: pa.Table) -> Shown:
    """Return some of the cells that were filled: the surest of each column, then the next."""
    met, ranked = Counter[str](), []
    filled = (cell for cell in cells.to_pylist() if cell["value"] is not None)
    for cell in sorted(filled, key=lambda cell: -cell["probability"]):
        met[cell["column"]] += 1
        line = (str(cell["row"]), cell["column"], shorten(cell["value"]), f"{cell['probability']:.2f}")
        ranked.append((met[cell["column"]], (*line, cell["reason"].partition(": ")[2])))
    rows = [line for _, line in sorted(ranked, key=lambda pair: pair[0])[:FILLS_SHOWN]]
    return make_table(("row", "column", "value", "confidence", "why"), rows, right=("row", "confidence"))


@verb(
    "Ask a model",
    "navi search films/ --like 'title=Alien, year=1979'",
    "navi search --model model films/ --row imdb:12 -k 3 --index films.index",
)
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
    from navi.files import scratch_folder
    from navi.tables import find_sources
    from navi.verbs import VectorIndex, build_index, open_index, parse_like
    from navi.verbs.vector_index import has_vectors

    screen = Screen(quiet=quiet, as_json=as_json)
    if (like is None) == (row is None):
        raise ConfigError("Give one of --like ROW and --row TABLE:N.")
    # Embedding all rows takes long: check what may be mistyped before.
    cells = None if like is None else parse_like(like)
    of_vectors, num_rows, wanted = cells is not None and len(paths) == 1 and has_vectors(paths[0]), 0, None
    if not of_vectors:
        paths = pick_sheet(paths, sheet)
        sources = find_sources(paths).sources
        wanted = None if row is None else parse_row(row, [source.name for source in sources])
        # An index that is kept may be asked where int8 is not to be had.
        num_rows = 0 if index is not None else count_rows(sources, INT8_ROWS)
    with screen.follow() as meter, scratch_folder() as scratch:
        opened, kept = open_model(meter, model, device, num_rows=num_rows), index or scratch / "index"
        meter.wait("Indexing")
        if of_vectors and cells is not None:
            vectors = VectorIndex.open(kept) if kept.exists() else VectorIndex.build(paths[0], kept)
            lines = vectors.search_like(opened, cells, k)[0]
            near, left_out = lines.to_pylist(), list[str]()
            texts = [
                [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in each.values()] for each in near
            ]
            shown = make_table(lines.column_names, texts, right=("row", "similarity"))
        else:
            if not kept.exists():
                build_index(opened, paths, kept, progress=meter.count_rows("Indexing"))
            rows = open_index(opened, kept, paths)
            found = rows.search_row(*wanted, k) if wanted else rows.search(like, k)[0]
            near, left_out = [asdict(each) for each in found], list(rows.left_out)
            shown = list_neighbours(found, screen.results.width)
    screen.answer_json(near)
    screen.answer(shown)
    screen.note(*(f"Left out: {reason}" for reason in left_out))
    if index is not None:
        screen.suggest("search faster: the index is kept", repeat_command())


def parse_row(text: str, known: Sequence[str]) -> tuple[str, int]:
    """Return table and number of `TABLE:N`, a row of one of the tables that are known.

    >>> parse_row("imdb:12", ["imdb", "kinothek"])
    ('imdb', 12)
    """
    table, _, number = text.rpartition(":")
    if not table or not number.isdecimal():
        raise ConfigError(f"Cannot read '{text}' as a row: expected TABLE:N, such as imdb:12.")
    if table not in known:
        raise TableError(f"There is no table '{table}'. Expected one of {', '.join(known)}.")
    return table, int(number)


def count_rows(sources: Iterable[Source], enough: int) -> int:
    """Return the number of rows, read until there are enough; what lies in an object store is not fetched for that."""
    from navi.storage import is_remote
    from navi.tables import ReadConfig, ReadReport, read_chunks

    num_rows = 0
    for source in sources:
        with suppress(TableError):  # said when the index is made
            for chunk in (
                () if is_remote(source.path) else read_chunks(source, ReadReport(), ReadConfig(chunk_rows=enough))
            ):
                num_rows += chunk.num_rows
                if num_rows >= enough:
                    return num_rows
    return num_rows


def list_neighbours(neighbours: Neighbours, width: int) -> Shown:
    """Return the rows found, the nearest first; with room for it, what vectors and words said for each."""
    scores = ("confidence", "similarity", "overlap")[: 3 if width >= NARROW else 1]
    rows = [
        (*(f"{getattr(each, score):.2f}" for score in scores), f"{each.table}:{each.row}", show_cells(each.cells))
        for each in neighbours
    ]
    columns = (*("confidence", "vector", "words")[: len(scores)], "row", "cells")
    return make_table(columns, rows, right=columns[:-2])


@verb(
    "Ask a model",
    "navi embed films/ -o rows.parquet",
    "navi embed films/ -o rows",
    "navi embed --model model films/ -o cells.parquet --kind segments --dtype float16",
)
def embed(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="OUT.parquet, or a folder of shards.")],
    model: ModelFolder = None,
    kind: Annotated[Kind, typer.Option(help="What gets a vector.")] = "rows",
    pooling: Annotated[
        Pooling | None,
        typer.Option(help="What stands for a row: the row read as a text, [CLS], or a mean.", show_default="text"),
    ] = None,
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
    from navi.verbs import EmbedConfig, embed_files
    from navi.verbs.vector_files import check_vectors

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, pooling=pooling)
    check_vectors(out, paths, overwrite=overwrite)
    with screen.follow() as meter:
        opened = open_model(meter, model, device, precision=precision)
        report, chosen = meter.count_rows(f"Embedding {kind}"), pick_sheet(paths, sheet)
        result = embed_files(
            opened, chosen, out, kind=kind, config=config, progress=report, overwrite=overwrite, engine=engine
        )
    seconds, size = monotonic() - started, opened.hidden_size
    lost, tables = summarise_reports(result.reports, result.skipped), {n: r.kept for n, r in result.reports.items()}
    facts = {"path": result.path, "vectors": result.num_vectors, "size": size, "tables": tables}
    screen.answer_json(facts | lost | {"seconds": round(seconds, 3)})
    num_rows, lines = sum(tables.values()), list_lost(lost)
    screen.summarise(
        make_heading(f"{result.path}: {count_things(result.num_vectors, 'vector')} of {size} numbers"),
        f"{count_things(num_rows, 'row')} of {count_things(len(tables), 'table')}, {format_duration(seconds)}, "
        f"{format_count(num_rows / max(seconds, 1e-3))} rows/s.",
        *(["Left out or changed:", *lines] if lines else []),
    )
    screen.suggest("read it in Python", f"pyarrow.parquet.read_table({str(out)!r})")
